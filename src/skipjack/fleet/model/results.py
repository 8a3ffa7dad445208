"""What outcomes of tasks mean for a job, and which kernel won. Nothing here has side effects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from skipjack.bank import BASELINE, claim, lower_bound
from skipjack.errors import NewerFormatError, StorageError
from skipjack.fleet.model.engine import Done
from skipjack.fleet.model.jobs import Claim, ClaimResult, JobKind, PriorResult
from skipjack.fleet.model.states import (
    ArtifactLost,
    Built,
    Event,
    Failed,
    Inapplicable,
    JobStage,
    Lost,
    Told,
)
from skipjack.fleet.model.tasks import TaskOutcome
from skipjack.ledger import read_facts

# The result of a claim, derived from what an engine reports.


def claim_result_of(claim: Claim, done: Done) -> ClaimResult:
    """The result of a claim, to be stored."""
    seconds = done.outcome.device_seconds if done.outcome else done.seconds
    if claim.stage is JobStage.BUILD or not 0.0 <= seconds < math.inf:
        seconds = 0.0
    return replace(_claim_result(claim, done), device_seconds=seconds)


def _claim_result(claim: Claim, done: Done) -> ClaimResult:
    outcome = done.outcome
    if outcome is None:
        return ClaimResult(claim, Lost(done.lost or "the worker is gone"), log=done.lost)
    event = event_of_outcome(claim.stage, outcome)
    failed_build = isinstance(event, Failed) and claim.stage is JobStage.BUILD
    if not (failed_build or isinstance(event, Built | Told)):
        return ClaimResult(claim, event, log=outcome.log)
    try:
        facts = read_facts(outcome.facts) if outcome.facts else {}
    except (StorageError, NewerFormatError) as error:
        return ClaimResult(claim, Failed(f"the results cannot be read: {error}"), log=outcome.log)
    if failed_build:
        return ClaimResult(claim, event, facts=facts, log=outcome.log)
    return ClaimResult(
        claim,
        event,
        facts=facts,
        digests=outcome.digests,
        artifacts=outcome.artifacts,
        trials=outcome.trials,
        failed_trials=outcome.failed_trials,
        best_ns=outcome.best_ns if math.isfinite(outcome.best_ns or 0.0) else None,
        result=outcome.result,
        log=outcome.log,
    )


def event_of_outcome(stage: JobStage, outcome: TaskOutcome) -> Event:
    """The event that an outcome is for its job."""
    if outcome.stage is not stage:
        return Failed(
            f"a worker answered the {stage} stage with an outcome of the {outcome.stage} stage"
        )
    if outcome.failed:
        return Failed(outcome.failed, outcome.hopeless)
    if outcome.artifact_lost and stage is JobStage.EVALUATE:
        return ArtifactLost(outcome.artifact_lost)
    if stage is JobStage.BUILD:
        return Inapplicable(outcome.inapplicable) if outcome.inapplicable else Built()
    return Told(finished=outcome.finished)


# The winner according to results of jobs: a ranking takes precedence over tunings.

_MOST = 2
"""Configs of one solver that are tried again."""

Result = tuple[JobKind, Mapping[str, Any]]
"""The kind of a job, and its result."""


def winner_of(results: Sequence[Result]) -> PriorResult | None:
    """What to ship: the fastest built kernel of a ranking if there is one, else of the tunings.

    Results are ordered newest first: of several rankings the first counts.
    """
    rankings = [_built(result) for kind, result in results if kind is JobKind.FIND]
    for verdict in rankings:
        if verdict is not None:
            return known_of(verdict)
    tuned = [
        result
        for kind, result in results
        if kind is JobKind.TUNE and result.get("code") and result.get("time_ns")
    ]
    if not tuned:
        return None
    return known_of(max(tuned, key=_strength))


def worth_trying(results: Iterable[Result]) -> tuple[PriorResult, ...]:
    """The best configs of every solver; earlier results take precedence."""
    counts: dict[str, int] = {}
    found: dict[tuple[str, str], PriorResult] = {}
    for known in (one for result in results for one in _configs(result)):
        key = known.solver, repr(sorted(known.config.items()))
        if key not in found and counts.get(known.solver, 0) < _MOST:
            counts[known.solver] = counts.get(known.solver, 0) + 1
            found[key] = known
    return tuple(found.values())


def _configs(result: Result) -> Iterator[PriorResult]:
    kind, record = result
    if kind is not JobKind.FIND:
        if record.get("solver") and record.get("time_ns"):
            yield known_of(record)
        return
    for row in record.get("solvers", ()):
        if row.get("status") == "ok" and row.get("config"):
            yield known_of(row)


def _built(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The verdict on the fastest built kernel of a ranking; None if none was built or ran."""
    verdict = result.get("verdict")
    return verdict if verdict and verdict.get("time_ns") else None


def known_of(record: Mapping[str, Any]) -> PriorResult:
    """The solver and the config of a verdict, or of a row of a ranking."""
    version = record.get("solver_version")
    return PriorResult(
        record["solver"], record["config"], None if version is None else int(version)
    )


def same_kernel(one: PriorResult, other: PriorResult) -> bool:
    """Whether solver and config are the same; versions of the solver may differ."""
    return (one.solver, one.config) == (other.solver, other.config)


def _strength(result: Mapping[str, Any]) -> tuple[int, float]:
    """The strength of the evidence for a tuning's result, as the bank defines it."""
    gains = result.get("speedups") or {}
    vendor, time_ns = str(result.get("vendor") or ""), float(result["time_ns"])
    over_library = None
    if vendor and result.get("vendor_ns"):
        one_call = {"ratio": float(result["vendor_ns"]) / time_ns}
        over_library = lower_bound(gains.get(vendor, one_call))
    over_default = lower_bound(gains.get("default")) if BASELINE in result else None
    return claim(over_library, over_default, time_ns)
