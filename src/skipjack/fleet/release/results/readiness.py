"""Whether a label's jobs are done, so that what is exported is all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skipjack.errors import UsageError
from skipjack.fleet.records import JobKind
from skipjack.fleet.states import State

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

_OPTIONS = {JobKind.FIND: " --find", JobKind.KERNELS: " --kernel-cache"}
"""Of ``skipjack run``, for jobs that are no tunings."""
_DONE = (State.EVALUATED, State.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The jobs that an export needs."""

    what: str
    """As in ``20 find jobs``."""
    kinds: tuple[JobKind, ...]
    ranked_by_driver: bool = False
    """Also tunings by a program of its own: MIOpen ranks while it tunes."""

    def includes(self, kind: JobKind, driver: str = "") -> bool:
        """Whether jobs of this kind, done by this driver if by any, are among them."""
        also = self.ranked_by_driver and kind is JobKind.TUNE and bool(driver)
        return kind in self.kinds or also


RANKINGS = Wanted("find jobs", (JobKind.FIND,), ranked_by_driver=True)
CONFIGS = Wanted("jobs", (JobKind.TUNE, JobKind.FIND))
CACHED = Wanted("kernel-cache jobs", (JobKind.KERNELS,))
TUNINGS = Wanted("tuning jobs", (JobKind.TUNE,))

Counted = tuple[JobKind, str, State]
"""The kind of jobs, the driver that does them, if any, and their state."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far the wanted jobs of a label are."""

    label: str
    wanted: Wanted
    jobs: Mapping[Counted, int] = field(default_factory=dict)
    never_begun: int = 0
    """Tunings that nobody began, where finds are enough."""

    @property
    def unfinished(self) -> int:
        """Those without a result, where one could be."""
        return sum(self._states(unfinished=True).values())

    @property
    def not_applicable(self) -> int:
        """Those that no solver can do."""
        return self._states()[State.NOT_APPLICABLE]

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to say of jobs that were not waited for."""
        if not self.never_begun:
            return ()
        verb = "tuning job was" if self.never_begun == 1 else "tuning jobs were"
        return (f"{self.never_begun} {verb} never begun: configs are those that finds ranked",)

    def check(self, *, partial: bool = False) -> None:
        """`UsageError` if there is nothing to export, or not all of it and that is not wanted."""
        name, what, states = self.label, self._what(), self._states()
        if not states:
            option = _OPTIONS.get(self.wanted.kinds[0], "")
            how = (
                f"run -l {name}{option} makes and does them"
                if option
                else f"load -l {name} makes them"
            )
            raise UsageError(f"label {name} has no {what}; skipjack {how}")
        total, left = states.total(), self._states(unfinished=True)
        if left.total() == total:
            raise UsageError(
                f"label {name} has no finished job among its {total} {what} ({_listed(left)}); "
                f"do them with {self._remedy()}"
            )
        if left and not partial:
            raise UsageError(
                f"label {name} has {left.total()} of {total} {what} that are not done "
                f"({_listed(left)}); finish them with {self._remedy()}, "
                "or export what is there with --partial"
            )

    def _what(self) -> str:
        """What the jobs are: tunings of a program of its own may stand for finds."""
        kinds = {kind for kind, _, _ in self.jobs}
        if self.wanted is not RANKINGS or JobKind.TUNE not in kinds:
            return self.wanted.what
        return "tuning jobs" if kinds == {JobKind.TUNE} else "tuning and find jobs"

    def _states(self, *, unfinished: bool = False) -> Counter[State]:
        counted: Counter[State] = Counter()
        for (_, _, state), count in self.jobs.items():
            if not (unfinished and state in _DONE):
                counted[state] += count
        return counted

    def _remedy(self) -> str:
        left = self._states(unfinished=True)
        unfinished = {kind for kind, _, state in self.jobs if state not in _DONE}
        kinds = [kind for kind in JobKind if kind in unfinished]
        steps = []
        if left[State.ERROR]:
            steps.append(f"skipjack reset -l {self.label} --state error --to new")
        if left[State.ABORTED]:
            steps.append(f"skipjack resume -l {self.label}")
        options = dict.fromkeys(_OPTIONS.get(kind, "") for kind in kinds)
        steps += [f"skipjack run -l {self.label}{option}" for option in options]
        return " and ".join(steps)


def readiness_of(store: Store, label: str, wanted: Wanted, device: str | None = None) -> Readiness:
    """How far the wanted jobs are, of all devices or one."""
    found = store.jobs.counts(label=label, by=("kind", "driver", "state"), device=device)
    jobs = {
        (JobKind(kind), driver, State(state)): count
        for (kind, driver, state), count in found
        if wanted.includes(JobKind(kind), driver)
    }
    return Readiness(label, wanted, jobs)


def configs_readiness(store: Store, label: str, device: str | None = None) -> Readiness:
    """How far a label's tunings and finds are; tunings do not count if none was ever begun."""
    ready = readiness_of(store, label, CONFIGS, device)
    tunings = {at: count for at, count in ready.jobs.items() if not RANKINGS.includes(*at[:2])}
    finds = {at: count for at, count in ready.jobs.items() if at not in tunings}
    begun = any(state is not State.NEW for _, _, state in tunings)
    if begun or not any(state is State.EVALUATED for _, _, state in finds):
        return ready
    return replace(ready, jobs=finds, never_begun=sum(tunings.values()))


def _listed(states: Counter[State]) -> str:
    return ", ".join(f"{states[state]} {state}" for state in State if states[state])
