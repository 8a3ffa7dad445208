"""Further jobs of a label, for each of its problems on each device: a find job, which ranks all
solvers, and a kernel job, which packs the winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipjack.bank import FIND as RANKING
from skipjack.bank import Bank
from skipjack.core import Device
from skipjack.errors import SkipjackError
from skipjack.fleet.model import AUTO, JobKind, JobPlan, JobState, PriorResult, same_kernel
from skipjack.fleet.store import by_name
from skipjack.fleet.toolchain import toolchain
from skipjack.solvers import find_solver, is_known

if TYPE_CHECKING:
    from skipjack.fleet.store import Store


Pair = tuple[str, str]
"""A problem's key and a device's name."""

_DONE = (JobState.EVALUATED, JobState.NOT_APPLICABLE, JobState.ERROR)


@dataclass(frozen=True, slots=True)
class FurtherJobs:
    """The result of making further jobs."""

    problems: int = 0
    """Pairs of problem and device; each has one job in the end, or was left out."""
    made: int = 0
    again: int = 0
    """Jobs that were finished and start over."""
    taken_over: int = 0
    """Rankings copied from other labels, made by the current solvers and compilers."""
    left_out: int = 0
    """Pairs with a ranking in this user's bank, or without a winner to pack."""


def make_finds(
    store: Store,
    label: str,
    *,
    fresh: bool = False,
    hybrid: Bank | None = None,
    devices: Sequence[str] = (),
) -> FurtherJobs:
    """Add a find job for every problem on every device of the label, or on these `devices` only.

    `fresh` starts finished jobs over. With `hybrid`, rankings by the current solvers are not
    measured again: those of other labels are copied, and those of this bank are left out.
    """
    owner, plans = store.labels.get(label), _plans(store, label, devices)
    wanted = _wanted(plans, JobKind.FIND)
    missing = _missing(wanted, plans, JobKind.FIND)
    again = _start_over(store, label, JobKind.FIND, devices) if fresh else 0
    taken = left = 0
    if hybrid is not None:
        taken = _take_over(store, label, missing)
        missing = _missing(wanted, store.labels.plans(label), JobKind.FIND) if taken else missing
        unranked = [plan for plan in missing if not _banked(store, label, hybrid, plan)]
        left, missing = len(missing) - len(unranked), unranked
    made = store.jobs.add(owner, missing).added if missing else 0
    return FurtherJobs(len(wanted), made, again, taken, left)


def make_searches(store: Store, label: str, *, devices: Sequence[str] = ()) -> FurtherJobs:
    """Add find jobs where no winner can be built today; outdated rankings start over."""
    owner, plans = store.labels.get(label), _plans(store, label, devices)
    winners = store.results.winners(label)
    lost = _without_winner(winners, _wanted(plans, JobKind.FIND))
    missing = _missing(lost, plans, JobKind.FIND)
    outdated = [(plan.problem, plan.device) for plan in lost if plan not in missing]
    again = _again(store, label, JobKind.FIND, [pair for pair in outdated if pair in winners])
    taken = _take_over(store, label, missing)
    made = store.jobs.add(owner, missing).added if missing else 0
    return FurtherJobs(len(lost), made, again, taken)


def make_kernels(
    store: Store, label: str, *, fresh: bool = False, devices: Sequence[str] = ()
) -> FurtherJobs:
    """Add a kernel job for each winner of the label; jobs with an outdated winner start over.

    So do jobs that found no winner when they began. `fresh` compiles all winners again.
    """
    owner, plans = store.labels.get(label), _plans(store, label, devices)
    wanted, winners = _wanted(plans, JobKind.KERNELS), store.results.winners(label)
    lost = set(_without_winner(winners, wanted))
    missing = [plan for plan in _missing(wanted, plans, JobKind.KERNELS) if plan not in lost]
    if fresh:
        again = _start_over(store, label, JobKind.KERNELS, devices)
    else:
        ours = {(plan.problem, plan.device) for plan in wanted}
        packed = {
            pair: known for pair, known in store.results.packed(label).items() if pair in ours
        }
        outdated = [pair for pair, known in packed.items() if not _same(known, winners.get(pair))]
        again = _again(store, label, JobKind.KERNELS, outdated)
        won = [plan for plan in wanted if plan not in lost and not plan.by_miopen]
        pairs = [(plan.problem, plan.device) for plan in won]
        again += _again(store, label, JobKind.KERNELS, pairs, JobState.NOT_APPLICABLE)
    made = store.jobs.add(owner, missing, epoch=int(fresh)).added if missing else 0
    return FurtherJobs(len(wanted), made, again, left_out=len(lost))


def _plans(store: Store, label: str, devices: Sequence[str]) -> list[JobPlan]:
    """The plans of a label, for these devices or for all."""
    return [plan for plan in store.labels.plans(label) if not devices or plan.device in devices]


def _wanted(plans: Sequence[JobPlan], kind: JobKind) -> list[JobPlan]:
    """One plan for each problem on each device, with the largest budget of its tuning jobs."""
    wanted: dict[Pair, JobPlan] = {}
    for plan in sorted(
        plans, key=lambda plan: plan.by_miopen
    ):  # MIOpen only does what no other solver does
        if plan.kind is not JobKind.TUNE:
            continue
        suits_all = plan.solver == AUTO or plan.by_miopen
        searcher = plan.searcher if suits_all else AUTO
        first = replace(plan, kind=kind, solver=AUTO, searcher=searcher)
        known = wanted.setdefault((plan.problem, plan.device), first)
        if plan.budget > known.budget:
            wanted[plan.problem, plan.device] = replace(
                known, budget=plan.budget, round=max(known.round, plan.round)
            )
    return list(wanted.values())


def _missing(wanted: Sequence[JobPlan], plans: Sequence[JobPlan], kind: JobKind) -> list[JobPlan]:
    there = {(plan.problem, plan.device) for plan in plans if plan.kind is kind}
    return [plan for plan in wanted if (plan.problem, plan.device) not in there]


def _start_over(store: Store, label: str, kind: JobKind, devices: Sequence[str]) -> int:
    return sum(
        store.jobs.reset(label, state, JobState.NEW, device=device, kind=kind).reset
        for state in _DONE
        for device in devices or (None,)
    )


def _again(
    store: Store,
    label: str,
    kind: JobKind,
    pairs: Iterable[Pair],
    done: JobState = JobState.EVALUATED,
) -> int:
    """Start those of these jobs over that are in the state `done`."""
    by_device: dict[str, list[str]] = {}
    for problem, device in pairs:
        by_device.setdefault(device, []).append(problem)
    return sum(
        store.jobs.reset(
            label, done, JobState.NEW, device=device, kind=kind, problems=problems
        ).reset
        for device, problems in by_device.items()
    )


def _same(packed: PriorResult, winner: PriorResult | None) -> bool:
    """Whether the packed kernel is still the winner; without a winner it stays."""
    return winner is None or same_kernel(packed, winner)


def _take_over(store: Store, label: str, missing: Sequence[JobPlan]) -> int:
    if not missing:
        return 0
    devices = {plan.device: _device(store, label, plan.device) for plan in missing}
    known = {name: toolchain(device) for name, device in devices.items() if device}
    ours = [plan for plan in missing if plan.device in known and not plan.by_miopen]
    pairs = [(plan.problem, plan.device) for plan in ours]
    return store.jobs.take_over(label, pairs, known)


def _without_winner(
    winners: Mapping[Pair, PriorResult], wanted: Sequence[JobPlan]
) -> list[JobPlan]:
    ours = (
        plan for plan in wanted if not plan.by_miopen
    )  # a kernel job of MIOpen ranks first if needed
    return [plan for plan in ours if not _buildable(winners.get((plan.problem, plan.device)))]


def _buildable(winner: PriorResult | None) -> bool:
    """Whether the solver that found it still has the same version."""
    if winner is None:
        return False
    if not is_known(winner.solver):
        return True  # a plug-in that is not installed here; a builder may have it
    return winner.solver_version in (None, find_solver(winner.solver).version)


def _banked(store: Store, label: str, bank: Bank, plan: JobPlan) -> bool:
    device = _device(store, label, plan.device)
    entry = bank.lookup(plan.problem, device.class_key, RANKING) if device else None
    if plan.by_miopen or entry is None or not is_known(entry.solver):
        return False
    return entry.solver_version == find_solver(entry.solver).version


def _device(store: Store, label: str, name: str) -> Device | None:
    """A real device, or the one that its name describes; None if the name is unknown here."""
    if known := store.machines.known_device(name, label):
        return known
    if seen := store.machines.device_classes(name):
        return seen[0].device  # as the first claim will decide
    try:
        return by_name(name)
    except SkipjackError:
        return None
