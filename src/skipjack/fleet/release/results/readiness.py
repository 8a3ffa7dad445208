"""Whether a label's jobs are done, so that what is exported is all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from skipjack.errors import UsageError
from skipjack.fleet.records import FIND, KERNELS, MIOPEN
from skipjack.fleet.states import State

_OPTIONS = {FIND: " --find", KERNELS: " --kernel-cache"}
"""Of ``skipjack run``, for jobs that are no tunings."""
_DONE = (State.EVALUATED, State.NOT_APPLICABLE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The jobs that an export needs."""

    what: str
    """As in ``20 find jobs``."""
    only: tuple[str, ...] = ()
    """Plans' solvers; empty: all but `without`."""
    without: tuple[str, ...] = ()

    def includes(self, solver: str) -> bool:
        """Whether jobs of this plan are among them."""
        return solver in self.only if self.only else solver not in self.without


RANKINGS = Wanted("find jobs", only=(FIND, MIOPEN))
CONFIGS = Wanted("jobs", without=(KERNELS,))
CACHED = Wanted("kernel-cache jobs", only=(KERNELS,))
TUNINGS = Wanted("tuning jobs", without=(KERNELS, FIND))


class Counting(Protocol):
    """What is read of a `Store`."""

    def counts(
        self,
        *,
        label: str | None = None,
        by: Sequence[str] = ("state",),
        state: State | None = None,
        device: str | None = None,
    ) -> list[tuple[tuple[str, ...], int]]:
        """The number of jobs for each combination of values that occurs."""
        ...


@dataclass(frozen=True, slots=True)
class Readiness:
    """How far the wanted jobs of a label are."""

    label: str
    wanted: Wanted
    jobs: Mapping[tuple[str, State], int] = field(default_factory=dict)
    """Their number by the solver of their plan and their state."""
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
            option = _OPTIONS.get(next(iter(self.wanted.only), ""), "")
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
        """What the jobs are: MIOpen ranks while it tunes, so its tunings may stand for finds."""
        solvers = {solver for solver, _ in self.jobs}
        if self.wanted is not RANKINGS or MIOPEN not in solvers:
            return self.wanted.what
        return "tuning jobs" if solvers == {MIOPEN} else "tuning and find jobs"

    def _states(self, *, unfinished: bool = False) -> Counter[State]:
        counted: Counter[State] = Counter()
        for (_, state), count in self.jobs.items():
            if not (unfinished and state in _DONE):
                counted[state] += count
        return counted

    def _remedy(self) -> str:
        left = self._states(unfinished=True)
        solvers = sorted({solver for solver, state in self.jobs if state not in _DONE})
        steps = []
        if left[State.ERROR]:
            steps.append(f"skipjack reset -l {self.label} --state error --to new")
        if left[State.ABORTED]:
            steps.append(f"skipjack resume -l {self.label}")
        options = dict.fromkeys(_OPTIONS.get(solver, "") for solver in solvers)
        steps += [f"skipjack run -l {self.label}{option}" for option in options]
        return " and ".join(steps)


def readiness_of(
    store: Counting, label: str, wanted: Wanted, device: str | None = None
) -> Readiness:
    """How far the wanted jobs are, of all devices or one."""
    found = store.counts(label=label, by=("solver", "state"), device=device)
    jobs = {
        (solver, State(state)): count for (solver, state), count in found if wanted.includes(solver)
    }
    return Readiness(label, wanted, jobs)


def configs_readiness(store: Counting, label: str, device: str | None = None) -> Readiness:
    """How far a label's tunings and finds are; tunings do not count if none was ever begun."""
    ready = readiness_of(store, label, CONFIGS, device)
    tunings = {at: count for at, count in ready.jobs.items() if not RANKINGS.includes(at[0])}
    finds = {at: count for at, count in ready.jobs.items() if at not in tunings}
    begun = any(state is not State.NEW for _, state in tunings)
    if begun or not any(state is State.EVALUATED for _, state in finds):
        return ready
    return replace(ready, jobs=finds, never_begun=sum(tunings.values()))


def _listed(states: Counter[State]) -> str:
    return ", ".join(f"{states[state]} {state}" for state in State if states[state])
