"""Whether the jobs of a label are finished, so that an export is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind, JobState
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

_OPTIONS = {JobKind.FIND: " --find", JobKind.KERNELS: " --kernel-cache"}
"""Options of ``skipjack run`` for jobs other than tunings."""
_DONE = (JobState.EVALUATED, JobState.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class JobSelection:
    """The jobs that an export needs."""

    what: str
    """The noun in messages, as in ``20 find jobs``."""
    kinds: tuple[JobKind, ...]
    ranked_by_driver: bool = False
    """Whether tunings by an external driver count, as MIOpen ranks while it tunes."""

    def includes(self, kind: JobKind, driver: str = "") -> bool:
        """Whether jobs of this kind, with this driver, are included."""
        also = self.ranked_by_driver and kind is JobKind.TUNE and bool(driver)
        return kind in self.kinds or also


RANKINGS = JobSelection("find jobs", (JobKind.FIND,), ranked_by_driver=True)
CONFIGS = JobSelection("jobs", (JobKind.TUNE, JobKind.FIND))
CACHED = JobSelection("kernel-cache jobs", (JobKind.KERNELS,))
TUNINGS = JobSelection("tuning jobs", (JobKind.TUNE,))

Counted = tuple[JobKind, str, JobState]
"""The kind of jobs, their driver, if any, and their state."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """The progress of the selected jobs of a label."""

    label: str
    selection: JobSelection
    jobs: Mapping[Counted, int] = field(default_factory=dict)
    never_begun: int = 0
    """Number of tunings that were not started, if finds are sufficient."""

    @property
    def unfinished(self) -> int:
        """The number of jobs that lack a result but could have one."""
        return sum(self._states(unfinished=True).values())

    @property
    def not_applicable(self) -> int:
        """The number of jobs that no solver supports."""
        return self._states()[JobState.NOT_APPLICABLE]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Remarks about jobs that the export did not require."""
        if not self.never_begun:
            return ()
        jobs = numbered(self.never_begun, "tuning job")
        verb = "was" if self.never_begun == 1 else "were"
        return (f"{jobs} {verb} never started: configs are those that finds ranked",)

    def check(self, *, partial: bool = False) -> None:
        """`UsageError` if there is nothing to export, or jobs are unfinished without `partial`."""
        name, what, states = self.label, self._what(), self._states()
        if not states:
            option = _OPTIONS.get(self.selection.kinds[0], "")
            how = (
                f"run -l {name}{option} creates and runs them"
                if option
                else f"load -l {name} creates them"
            )
            raise UsageError(f"label {name} has no {what}; skipjack {how}")
        total, left = states.total(), self._states(unfinished=True)
        if left.total() == total:
            raise UsageError(
                f"label {name} has no finished job among its {total} {what} ({_listed(left)}); "
                f"run them with {self._remedy()}"
            )
        if left and not partial:
            raise UsageError(
                f"label {name} has {left.total()} of {total} {what} that are not finished "
                f"({_listed(left)}); finish them with {self._remedy()}, "
                "or export the existing results with --partial"
            )

    def _what(self) -> str:
        """The noun for the jobs: tunings of an external driver may count as finds."""
        kinds = {kind for kind, _, _ in self.jobs}
        if self.selection is not RANKINGS or JobKind.TUNE not in kinds:
            return self.selection.what
        return "tuning jobs" if kinds == {JobKind.TUNE} else "tuning and find jobs"

    def _states(self, *, unfinished: bool = False) -> Counter[JobState]:
        counted: Counter[JobState] = Counter()
        for (_, _, state), count in self.jobs.items():
            if not (unfinished and state in _DONE):
                counted[state] += count
        return counted

    def _remedy(self) -> str:
        left = self._states(unfinished=True)
        unfinished = {kind for kind, _, state in self.jobs if state not in _DONE}
        kinds = [kind for kind in JobKind if kind in unfinished]
        steps = []
        if left[JobState.ERROR]:
            steps.append(f"skipjack reset -l {self.label} --state error --to new")
        if left[JobState.ABORTED]:
            steps.append(f"skipjack resume -l {self.label}")
        options = dict.fromkeys(_OPTIONS.get(kind, "") for kind in kinds)
        steps += [f"skipjack run -l {self.label}{option}" for option in options]
        return " and ".join(steps)


def readiness_of(
    store: Store, label: str, selection: JobSelection, device: str | None = None
) -> Readiness:
    """The progress of the selected jobs, on all devices or one."""
    found = store.jobs.counts(label=label, by=("kind", "driver", "state"), device=device)
    jobs = {
        (JobKind(kind), driver, JobState(state)): count
        for (kind, driver, state), count in found
        if selection.includes(JobKind(kind), driver)
    }
    return Readiness(label, selection, jobs)


def configs_readiness(store: Store, label: str, device: str | None = None) -> Readiness:
    """The progress of tunings and finds; tunings do not count if none was started."""
    ready = readiness_of(store, label, CONFIGS, device)
    tunings = {at: count for at, count in ready.jobs.items() if not RANKINGS.includes(*at[:2])}
    finds = {at: count for at, count in ready.jobs.items() if at not in tunings}
    begun = any(state is not JobState.NEW for _, _, state in tunings)
    if begun or not any(state is JobState.EVALUATED for _, _, state in finds):
        return ready
    return replace(ready, jobs=finds, never_begun=sum(tunings.values()))


def _listed(states: Counter[JobState]) -> str:
    return ", ".join(f"{states[state]} {state}" for state in JobState if states[state])
