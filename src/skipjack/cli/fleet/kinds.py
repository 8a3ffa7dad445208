"""Which kind of jobs a run is to do, and the jobs it makes before it begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.fleet.further_jobs import Further
    from skipjack.fleet.records import JobKind
    from skipjack.fleet.states import State
    from skipjack.fleet.store.store import Store
    from skipjack.settings import Settings

NORMAL, HYBRID = 1, 3
_ELSEWHERE = {
    2: "find mode 2 (fast) measures nothing, so there is nothing to run: skipjack.lookup() answers "
    "from banks, a heuristic, the nearest problem, a solver's first proposal or a library, and "
    "skipjack bank why PROBLEM says which",
    5: "find mode 5 (dynamic hybrid) leaves solvers out that compile for each shape; --find-mode 3 "
    "ranks all of them where there is no ranking yet",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options say."""

    kind: JobKind
    hybrid: bool = False
    fresh: bool = False

    @property
    def words(self) -> list[str]:
        """The options for a run that goes on with the same jobs: it starts nothing over."""
        from skipjack.fleet.records import JobKind

        if self.kind is JobKind.FIND:
            return ["--find", "--find-mode", str(HYBRID if self.hybrid else NORMAL)]
        return ["--kernel-cache"] if self.kind is JobKind.KERNELS else []


def asked_for(find: bool, find_mode: int | None, kernel_cache: bool, fresh: bool) -> Asked:
    """The options together; `UsageError` if they contradict each other."""
    from skipjack.fleet.records import JobKind

    if find and kernel_cache:
        raise UsageError("--find and --kernel-cache are two runs: find first, then the kernels")
    if find_mode is not None:
        if not find:
            raise UsageError("--find-mode says how to --find; give that too")
        if find_mode in _ELSEWHERE:
            raise UsageError(_ELSEWHERE[find_mode])
        if find_mode not in (NORMAL, HYBRID):
            raise UsageError(
                f"unknown find mode {find_mode}: 1 ranks all solvers, 3 only where no ranking is"
            )
    hybrid = find_mode == HYBRID
    if fresh and not (find or kernel_cache):
        raise UsageError(
            "--fresh is for --find and --kernel-cache; skipjack reset --state evaluated --to new "
            "starts tuning jobs over"
        )
    if fresh and hybrid:
        raise UsageError("--fresh does all again and --find-mode 3 what is missing: give one")
    kind = JobKind.FIND if find else JobKind.KERNELS if kernel_cache else JobKind.TUNE
    return Asked(kind, hybrid, fresh)


def phases(
    asked: Asked, store: Store, label: str, settings: Settings, devices: Sequence[str]
) -> Iterator[tuple[JobKind, Further | None]]:
    """The kinds of jobs to do one after the other, each with what was made of its jobs just now.

    For these devices, or for all.
    """
    from skipjack.bank import Bank
    from skipjack.fleet import further_jobs
    from skipjack.fleet.records import JobKind

    if asked.kind is JobKind.TUNE:
        yield JobKind.TUNE, None
    elif asked.kind is JobKind.FIND:
        bank = Bank.open(settings.user_dir) if asked.hybrid else None
        yield (
            JobKind.FIND,
            further_jobs.make_finds(store, label, fresh=asked.fresh, hybrid=bank, devices=devices),
        )
    else:
        searches = further_jobs.make_searches(store, label, devices=devices)
        if searches.problems:
            yield JobKind.FIND, searches
        made = further_jobs.make_kernels(store, label, fresh=asked.fresh, devices=devices)
        yield JobKind.KERNELS, made


def all_over(counts: Mapping[State, int]) -> bool:
    """Whether no job is left to do, so that no worker need be started."""
    return all(state.over for state, count in counts.items() if count)


def make_now(
    asked: Asked, store: Store, label: str, settings: Settings, devices: Sequence[str]
) -> None:
    """Make the jobs, for a run that begins elsewhere and later."""
    for _ in phases(asked, store, label, settings, devices):
        pass
