"""One problem: searches with their trials, samples, the bank's decision, and lookup's steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.jobs import job_number
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.bank import BankEntry
from skipjack.core import Config, Value
from skipjack.errors import SkipjackError
from skipjack.fleet.store import JobSummary, ProblemSummary, StoredSearch
from skipjack.ledger import (
    DecisionRecord,
    LedgerBrowser,
    LedgerStudy,
    decision_word,
)
from skipjack.sweep.results import ParameterAxis, ParameterEffect, axes_of, effects_of

MOST_TRIALS = 20_000
"""Trials of a search that are read: the last ones."""


@dataclass(frozen=True, slots=True)
class ProblemSearch:
    """A search for the best config of a problem: of the ledger, or of a job of the fleet."""

    id: str
    """``STUDY`` of the ledger, or ``JOB.STUDY`` of the fleet."""
    job: int | None
    """The job of the fleet; None for a search that was run here."""
    problem: str
    solver: str
    device: str
    """The class of the device."""
    searcher: str
    seed: str
    objective: str
    trials: int
    failed: int
    best: float | None
    """The best value, which is minimised: nanoseconds for a time."""
    created: float | None


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision about a problem after a search."""

    solver: str
    device: str
    outcome: str
    """As tables show it: ``banked``, ``entry stays``, ``library`` ..."""
    config: Mapping[str, Value]
    reason: str
    time_ns: float | None
    created: float | None


@dataclass(frozen=True, slots=True)
class LookupStep:
    """A step of a lookup: whether it answers, and what it says."""

    step: str
    answered: bool
    said: str


@dataclass(frozen=True, slots=True)
class KnownEntry:
    """An entry of a bank for a problem."""

    layer: str
    """The name of the bank."""
    entry: BankEntry
    behind: Sequence[BankEntry]
    """Entries of the same key with weaker evidence."""
    stale: str
    """What has changed here since it was measured; empty if no change is known."""


@dataclass(frozen=True, slots=True)
class ProblemPage:
    """All that is known about a problem."""

    key: str
    fleet: ProblemSummary | None
    """Its tags, if the fleet knows it."""
    jobs: Sequence[JobSummary]
    searches: Sequence[ProblemSearch]
    """Those of the ledger and of the fleet, the newest first."""
    decisions: Sequence[DecisionSummary]
    entries: Sequence[KnownEntry]
    steps: Sequence[LookupStep]
    """What the banks answer, in the order in which a lookup asks them."""


def problem_page(workspace: Workspace, key: str) -> ProblemPage:
    """A problem by its full key; `UnknownNameError` if nothing is known about it."""
    fleet, jobs, searches = None, [], []
    if workspace.has_store:
        store = workspace.store
        fleet = store.browsing.problem(key)
        if fleet is not None:
            jobs = store.browsing.jobs_of_problem(key)
            searches += [_of_job(one) for one in store.browsing.searches_of_problem(key)]
    decisions: list[DecisionSummary] = []
    if workspace.has_ledger:
        searches += [_of_ledger(one) for one in LedgerBrowser(workspace.ledger).studies(key)]
        decisions = [_decision(one) for one in reversed(workspace.ledger.decisions(key))]
    entries = known_entries_of(workspace, key)
    if fleet is None and not searches and not entries and not decisions:
        raise UnknownNameError(
            f"nothing is known about problem {key!r}; skipjack tune {key} tries configs"
        )
    searches.sort(key=lambda one: -(one.created or 0.0))
    return ProblemPage(key, fleet, jobs, searches, decisions, entries, _steps(workspace, key))


def known_entries_of(workspace: Workspace, key: str) -> list[KnownEntry]:
    """The entries of all banks for a problem, in the order in which banks are asked."""
    from skipjack.runtime import why_stale

    return [
        KnownEntry(layer.name, entry, layer.bank.ranked(*entry.key)[1:], why_stale(entry))
        for layer in workspace.layers
        for entry in layer.bank.entries_of(key)
    ]


def _steps(workspace: Workspace, key: str) -> list[LookupStep]:
    """What each bank has; nothing is built for it, in contrast to `lookup_ladder`."""
    steps = []
    for layer in workspace.layers:
        try:
            found = layer.of_problem(key)
        except SkipjackError as error:
            steps.append(LookupStep(layer.name, False, str(error)))
            continue
        said = ", ".join(f"{one.solver} for {one.device_name} ({one.deployed})" for one in found)
        steps.append(LookupStep(layer.name, bool(found), said or "no entry for this problem"))
    return steps


@dataclass(frozen=True, slots=True)
class LookupLadder:
    """How a lookup on this machine arrives at its answer."""

    problem: str
    device: str
    policy: str
    source: str
    """Where the answer is from; empty if there is none."""
    solver: str
    config: Mapping[str, Value]
    steps: Sequence[LookupStep]
    then: str
    """What the policy makes a program do in addition."""


def lookup_ladder(workspace: Workspace, key: str, device: str | None = None) -> LookupLadder:
    """The steps of a lookup on this machine. It may build and verify kernels, which takes time."""
    from skipjack.runtime import explain

    found = explain(key, device=device, settings=workspace.settings)
    answer = found.decision.answer
    return LookupLadder(
        found.problem,
        found.device,
        found.policy,
        answer.source if answer else "",
        answer.kernel.solver if answer else "",
        dict(answer.config) if answer else {},
        [LookupStep(one.step, one.answered, one.said) for one in found.decision.steps],
        found.then,
    )


# A search, trial by trial.


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A trial of a search."""

    number: int
    """From 1, in the order in which the searcher was told."""
    config: Config
    status: str
    value: float | None
    """What is minimised: nanoseconds for a time; None if it failed."""
    spread: float | None
    reason: str
    created: float | None
    best: float | None
    """The best value so far."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A search: its trials in order, its parameters, and how much each of them matters."""

    summary: ProblemSearch
    trials: Sequence[TrialRow]
    """The last ones, after the best of the earlier ones."""
    axes: Sequence[ParameterAxis]
    """The parameters, with the places of their values: for parallel coordinates."""
    effects: Sequence[ParameterEffect]
    """The parameters, the most important first."""

    @property
    def best(self) -> TrialRow | None:
        """The best trial."""
        known = [one for one in self.trials if one.value is not None]
        return min(known, key=lambda one: one.value or 0.0, default=None)


def search_page(workspace: Workspace, key: str, search: str) -> SearchPage:
    """A search of a problem, by its id; `UnknownNameError` if there is none."""
    summary, trials = search_trials(workspace, key, search)
    points = [one.config for one in trials]
    values = [one.value for one in trials]
    axes = axes_of(points)
    return SearchPage(summary, trials, axes, effects_of(axes, points, values))


def search_trials(
    workspace: Workspace, key: str, search: str
) -> tuple[ProblemSearch, list[TrialRow]]:
    """A search and its last trials, after the best of the earlier ones."""
    job, _, study = search.rpartition(".")
    if job:
        found, rows = _stored_trials(workspace, job_number(job), study)
    else:
        found, rows = _ledger_trials(workspace, key, study)
    summary = next((one for one in found if one.problem == key), None)
    if summary is None:
        raise UnknownNameError(f"problem {key} has no search {search!r}")
    best: float | None = None
    for place, one in enumerate(rows):
        if one.value is not None and (best is None or one.value < best):
            best = one.value
        rows[place] = replace(one, best=best)
    return summary, rows


def trials_mark(workspace: Workspace, search: str) -> str:
    """A text that changes with the trials of a search; read without them."""
    job, _, study = search.rpartition(".")
    if job:
        return workspace.store.browsing.trials_mark(job_number(job), study)
    return LedgerBrowser(workspace.ledger).trials_mark(study)


def _stored_trials(
    workspace: Workspace, job: int, study: str
) -> tuple[list[ProblemSearch], list[TrialRow]]:
    browsing = workspace.store.browsing
    found = [_of_job(one) for one in browsing.searches_of_job(job) if one.study == study]
    rows = [
        TrialRow(
            one.number,
            Config.from_key(one.config),
            *(one.status, one.value, one.spread, one.reason, seconds_of(one.created), None),
        )
        for one in (browsing.trials(job, study, MOST_TRIALS) if found else ())
    ]
    return found, rows


def _ledger_trials(
    workspace: Workspace, key: str, study: str
) -> tuple[list[ProblemSearch], list[TrialRow]]:
    studies = LedgerBrowser(workspace.ledger).studies(key)
    found = [_of_ledger(one) for one in studies if one.id == study]
    rows = [
        TrialRow(
            number,
            told.config,
            *(str(told.status), told.value, told.spread, told.reason),
            *(seconds_of(entry.created), None),
        )
        for number, entry in (workspace.ledger.last_trials(study, MOST_TRIALS) if found else ())
        if (told := entry.trial) is not None
    ]
    return found, rows


def _of_job(one: StoredSearch) -> ProblemSearch:
    return ProblemSearch(
        f"{one.job}.{one.study}",
        *(one.job, one.problem, one.solver, one.device, one.searcher, one.seed, one.objective),
        *(one.trials, one.failed, one.best, seconds_of(one.created)),
    )


def _of_ledger(one: LedgerStudy) -> ProblemSearch:
    return ProblemSearch(
        one.id,
        None,
        *(one.problem, one.solver, one.device, one.searcher, one.seed, one.objective),
        *(one.trials, one.failed, one.best, seconds_of(one.created)),
    )


def _decision(one: DecisionRecord) -> DecisionSummary:
    time_ns = one.record.get("time_ns")
    reason = one.record.get("reason")
    return DecisionSummary(
        one.solver,
        one.device,
        decision_word(one.outcome),
        dict(one.config),
        reason if isinstance(reason, str) else "",
        float(time_ns) if isinstance(time_ns, int | float) else None,
        seconds_of(one.created),
    )
