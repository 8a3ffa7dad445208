"""Further jobs of a label: one that ranks all solvers for each of its problems on each device, and
one that packs the winner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipjack.bank import FIND as RANKING
from skipjack.bank import Bank
from skipjack.core.device import Device
from skipjack.errors import SkipjackError
from skipjack.fleet.records import AUTO, JobKind, Known, Plan
from skipjack.fleet.states import State
from skipjack.fleet.store.machines.devices import by_name
from skipjack.fleet.toolchain import toolchain
from skipjack.fleet.winners import same_kernel
from skipjack.solvers import find_solver, is_known

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

Pair = tuple[str, str]
"""A problem's key and a device's name."""

_DONE = (State.EVALUATED, State.NOT_APPLICABLE, State.ERROR)


@dataclass(frozen=True, slots=True)
class Further:
    """What came of making further jobs."""

    problems: int = 0
    """On devices: each has one job in the end, or was left out."""
    made: int = 0
    again: int = 0
    """Done before, and started over."""
    taken_over: int = 0
    """Rankings of other labels by today's solvers and compilers."""
    left_out: int = 0
    """Ranked in this user's bank, or without a winner to pack."""


def make_finds(
    store: Store,
    label: str,
    *,
    fresh: bool = False,
    hybrid: Bank | None = None,
    devices: Sequence[str] = (),
) -> Further:
    """A find job for every problem on every device of the label, or on these `devices` alone.

    `fresh` starts those over that are done. With `hybrid`, what has a ranking by today's solvers
    is not measured again: of another label it is taken over, and what this bank has is left out.
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
    return Further(len(wanted), made, again, taken, left)


def make_searches(store: Store, label: str, *, devices: Sequence[str] = ()) -> Further:
    """Find jobs for what has no winner that could be built today; outdated rankings start over."""
    owner, plans = store.labels.get(label), _plans(store, label, devices)
    winners = store.results.winners(label)
    lost = _without_winner(winners, _wanted(plans, JobKind.FIND))
    missing = _missing(lost, plans, JobKind.FIND)
    outdated = [(plan.problem, plan.device) for plan in lost if plan not in missing]
    again = _again(store, label, JobKind.FIND, [pair for pair in outdated if pair in winners])
    taken = _take_over(store, label, missing)
    made = store.jobs.add(owner, missing).added if missing else 0
    return Further(len(lost), made, again, taken)


def make_kernels(
    store: Store, label: str, *, fresh: bool = False, devices: Sequence[str] = ()
) -> Further:
    """A job for each winner of the label; another winner than was packed is packed instead.

    So is one that was not there when its job was begun. `fresh` has all of them compiled again.
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
        again += _again(store, label, JobKind.KERNELS, pairs, State.NOT_APPLICABLE)
    made = store.jobs.add(owner, missing, epoch=int(fresh)).added if missing else 0
    return Further(len(wanted), made, again, left_out=len(lost))


def _plans(store: Store, label: str, devices: Sequence[str]) -> list[Plan]:
    """Those of a label, for some devices or for all."""
    return [plan for plan in store.labels.plans(label) if not devices or plan.device in devices]


def _wanted(plans: Sequence[Plan], kind: JobKind) -> list[Plan]:
    """One plan for each problem on each device, with the largest budget of its jobs."""
    wanted: dict[Pair, Plan] = {}
    for plan in sorted(plans, key=lambda plan: plan.by_miopen):  # it does what nobody else is for
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


def _missing(wanted: Sequence[Plan], plans: Sequence[Plan], kind: JobKind) -> list[Plan]:
    there = {(plan.problem, plan.device) for plan in plans if plan.kind is kind}
    return [plan for plan in wanted if (plan.problem, plan.device) not in there]


def _start_over(store: Store, label: str, kind: JobKind, devices: Sequence[str]) -> int:
    return sum(
        store.jobs.reset(label, state, State.NEW, device=device, kind=kind).reset
        for state in _DONE
        for device in devices or (None,)
    )


def _again(
    store: Store,
    label: str,
    kind: JobKind,
    pairs: Iterable[Pair],
    done: State = State.EVALUATED,
) -> int:
    """Start these over that are in this state."""
    by_device: dict[str, list[str]] = {}
    for problem, device in pairs:
        by_device.setdefault(device, []).append(problem)
    return sum(
        store.jobs.reset(label, done, State.NEW, device=device, kind=kind, problems=problems).reset
        for device, problems in by_device.items()
    )


def _same(packed: Known, winner: Known | None) -> bool:
    """Whether what was packed is still to be packed; without a winner it is the best there is."""
    return winner is None or same_kernel(packed, winner)


def _take_over(store: Store, label: str, missing: Sequence[Plan]) -> int:
    if not missing:
        return 0
    devices = {plan.device: _device(store, label, plan.device) for plan in missing}
    known = {name: toolchain(device) for name, device in devices.items() if device}
    ours = [plan for plan in missing if plan.device in known and not plan.by_miopen]
    pairs = [(plan.problem, plan.device) for plan in ours]
    return store.jobs.take_over(label, pairs, known)


def _without_winner(winners: Mapping[Pair, Known], wanted: Sequence[Plan]) -> list[Plan]:
    ours = (plan for plan in wanted if not plan.by_miopen)  # MIOpen ranks first if it has to
    return [plan for plan in ours if not _buildable(winners.get((plan.problem, plan.device)))]


def _buildable(winner: Known | None) -> bool:
    """Whether the solver that found it is still what it was."""
    if winner is None:
        return False
    if not is_known(winner.solver):
        return True  # a plug-in that is not here; a builder may have it
    return winner.solver_version in (None, find_solver(winner.solver).version)


def _banked(store: Store, label: str, bank: Bank, plan: Plan) -> bool:
    device = _device(store, label, plan.device)
    entry = bank.lookup(plan.problem, device.class_key, RANKING) if device else None
    if plan.by_miopen or entry is None or not is_known(entry.solver):
        return False
    return entry.solver_version == find_solver(entry.solver).version


def _device(store: Store, label: str, name: str) -> Device | None:
    """A real one, or what its name says; None if that says nothing here."""
    if known := store.machines.known_device(name, label):
        return known
    if seen := store.machines.device_classes(name):
        return seen[0].device  # as the first claim will decide
    try:
        return by_name(name)
    except SkipjackError:
        return None
