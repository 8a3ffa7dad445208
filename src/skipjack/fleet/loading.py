"""From problems to plans: which of them, on which devices, by which solvers.

By default a job is a problem on a device, and all solvers that promise something race in it. With
``--solver all`` there is a job for every solver that can do the problem there.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skipjack.core.device import Device, parse_device_name
from skipjack.core.dtypes import DTYPES, listed
from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.fleet.records import AUTO, MIOPEN, JobKind, Plan
from skipjack.fleet.store import ProblemRow
from skipjack.fleet.store.machines.devices import by_name, several, told_apart
from skipjack.fleet.toolchain import toolchain
from skipjack.gpu.architectures import KNOWN
from skipjack.gpu.describing import named_gpu, names_gpu, refusal_of_arch
from skipjack.operations import get, parse
from skipjack.operations import names as operation_names
from skipjack.search import check_name
from skipjack.solvers import every, find_solver, is_for, refusal
from skipjack.solvers.gpu.triton_solver import TritonSolver
from skipjack.solvers.solver import BuildingSolver, DrivingSolver, Solver

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

ALL = "all"
DIRECTIONS = ("fwd", "bwd", "wrw")


@dataclass(frozen=True, slots=True)
class Selection:
    """Which problems: those of a tag, of a label, that recur, that programs missed, or all; and of
    these some."""

    tag: str | None = None
    everything: bool = False
    from_label: str | None = None
    recurrent: bool = False
    stale: bool = False
    """Only where nothing is known yet, or by another toolchain."""
    operations: tuple[str, ...] = ()
    """Names, or patterns as ``conv*``; none of them: all."""
    directions: tuple[str, ...] = ()
    """None of them: all. Operations without directions are not asked."""
    dtype: str | None = None
    missed: tuple[Plan, ...] = ()
    """What programs missed, on which devices; the order of the jobs."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How they are to be tuned. What is None is as usual, or as in the label that is copied."""

    devices: tuple[str, ...] = ()
    solver: str | None = None
    """``auto``, ``all``, or names with commas between them."""
    searcher: str | None = None
    seed: int | None = None
    budget: int | None = None
    round: int | None = None
    label: str = ""
    """Which gets the jobs: those it has say which device of several with one name is meant."""
    as_on: str = ""
    """Likewise a machine that has it."""
    here: tuple[Device, ...] = ()
    """Likewise those of this machine, where `devices` are not what somebody named."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The plans, and what was left out."""

    plans: list[Plan] = field(default_factory=list)
    problems: int = 0
    """How many were selected."""
    not_applicable: int = 0
    """Solvers that cannot do a problem on a device, where solvers were asked for."""
    fresh: int = 0
    """Problems on devices that are known well enough, where stale ones were asked for."""
    chosen: Mapping[str, Device] = field(default_factory=dict)
    """Real devices that are meant, by name."""


def plan_jobs(store: Store, selection: Selection, terms: Terms) -> Planned:
    """The plans of jobs for what is selected; `UsageError` if the request makes no sense."""
    _check(selection)
    if terms.searcher is not None:
        terms = replace(terms, searcher=check_name(terms.searcher))
    rows = list(
        store.problems.find(
            tag=selection.tag,
            operations=operations_named(selection.operations),
            recurrent=selection.recurrent,
            directions=selection.directions,
            dtype=selection.dtype,
        )
    )
    copied = list(selection.missed)
    if selection.from_label:
        copied = store.labels.plans(selection.from_label)
    copied = [plan for plan in copied if plan.kind is JobKind.TUNE]
    devices = terms.devices or tuple(plan.device for plan in copied)
    wished = map(str.strip, (terms.solver or "").split(","))
    solvers_named = {*wished, *(plan.solver for plan in copied)}
    meant = {name: _meant(store, name, selection, terms) for name in dict.fromkeys(devices)}
    targets = {name: _device(real, name, solvers_named) for name, real in meant.items()}
    if selection.from_label or selection.missed:
        drafts = _copied(copied, rows, terms)
    elif targets:
        drafts = [_with_terms(Plan(row.key, name), terms) for name in targets for row in rows]
    else:
        raise UsageError("jobs are for a device: name one, as --device znver4/1")
    solvers = Solvers(terms.solver or AUTO, targets)
    selected = len({draft.problem for draft in drafts})
    wanted = _stale_only(store, rows, drafts, targets) if selection.stale else drafts
    fresh = len(drafts) - len(wanted)
    plans = list(wanted)
    if terms.solver is not None:
        chosen = dict.fromkeys(replace(draft, solver=AUTO) for draft in wanted)
        plans = [_for_solver(draft, name) for draft in chosen for name in solvers.of(draft)]
    real = {name: device for name, device in meant.items() if device}
    return Planned(plans, selected, solvers.refused, fresh, real)


def _for_solver(draft: Plan, name: str) -> Plan:
    """MIOpen does jobs by itself, also the further ones that a label gets."""
    if name == MIOPEN:
        return replace(draft, solver=name, searcher=AUTO, driver=MIOPEN)
    return replace(draft, solver=name, driver="")


def _check(selection: Selection) -> None:
    sources = selection.tag, selection.from_label, selection.recurrent, selection.missed
    if not (selection.everything or any(sources)):
        raise UsageError(
            "which problems? name a tag, a label to copy, recurrent ones, misses, or all"
        )
    if selection.everything and (selection.tag or selection.from_label):
        raise UsageError("all problems, or those of a tag or label: not both")
    if selection.dtype is not None and selection.dtype not in DTYPES:
        raise UsageError(f"unknown dtype {selection.dtype!r}: choose {listed(tuple(DTYPES), 'or')}")
    for direction in selection.directions:
        if direction not in DIRECTIONS:
            raise UsageError(
                f"unknown direction {direction!r}: choose {', '.join(DIRECTIONS)} or all"
            )


def operations_named(wanted: Sequence[str]) -> list[str]:
    """The names that are meant; `ProblemError` for one that nothing is called."""
    meant: list[str] = []
    for name in wanted:
        found = fnmatch.filter(operation_names(), name)
        meant += found or [get(name).name]
    return meant


def _with_terms(plan: Plan, terms: Terms) -> Plan:
    """The plan with what the terms say; a round is never larger than the whole."""
    budget = plan.budget if terms.budget is None else terms.budget
    size = plan.round if terms.round is None else terms.round
    for what, number in (("budget", budget), ("round", size)):
        if number < 1:
            raise UsageError(f"a {what} is at least one trial, {number} is not")
    return replace(
        plan,
        searcher=plan.searcher if terms.searcher is None else terms.searcher,
        seed=plan.seed if terms.seed is None else terms.seed,
        budget=budget,
        round=min(size, budget),
    )


def _copied(plans: Sequence[Plan], rows: Sequence[ProblemRow], terms: Terms) -> list[Plan]:
    """Those of a label whose problems are selected, perhaps on other devices."""
    selected = {row.key for row in rows}
    mine = [_with_terms(plan, terms) for plan in plans if plan.problem in selected]
    if not terms.devices:
        return mine
    return list(
        dict.fromkeys(replace(plan, device=name) for name in terms.devices for plan in mine)
    )


def _stale_only(
    store: Store,
    rows: Sequence[ProblemRow],
    drafts: Sequence[Plan],
    targets: Mapping[str, Device],
) -> list[Plan]:
    ids = {row.key: row.id for row in rows}
    stale = {
        device: store.jobs.stale(targets[device], toolchain(targets[device]), ids.values())
        for device in dict.fromkeys(draft.device for draft in drafts)
    }
    return [draft for draft in drafts if ids[draft.problem] in stale[draft.device]]


def _meant(store: Store, name: str, selection: Selection, terms: Terms) -> Device | None:
    """Which real device a name stands for: that of the label's other jobs, of the machine that was
    named, of this machine if nobody named a device, or the only one there is. None: nobody has seen
    any; `UsageError` if there are several.
    """
    parse_device_name(name)
    bound = store.machines.known_device(name, terms.label) if terms.label else None
    found = store.machines.device_classes(name)
    if terms.as_on:
        on = next((one.device for one in found if terms.as_on in one.machines), None)
        if on is None:
            raise UsageError(
                f"no machine {terms.as_on} with {name} was seen; known: "
                f"{told_apart(found) or 'no machine with it yet'}"
            )
        if bound and bound.class_key != on.class_key:
            raise UsageError(
                f"label {terms.label} is for another {name} than that of {terms.as_on}; "
                "load the jobs into a label of their own"
            )
        return on
    if bound or (len(found) <= 1 and not terms.here):
        return bound or (found[0].device if found else None)
    here = next((device for device in terms.here if device.name == name), None)
    if here:
        return here if found else None
    copied = (
        store.machines.known_device(name, selection.from_label) if selection.from_label else None
    )
    if copied and any(one.device.class_key == copied.class_key for one in found):
        return copied
    raise several(name, found)


def _device(known: Device | None, name: str, solvers_named: Collection[str]) -> Device:
    """A real one if one was seen, else what its name says; `UsageError` if nobody builds for it."""
    arch, _ = parse_device_name(name)
    if not names_gpu(arch) or arch in KNOWN:
        return known or by_name(name)
    device = known or named_gpu(name)
    if not _another_is_for(device, solvers_named):
        other = f"; MIOpen itself may: --solver {MIOPEN}" if device.kind == "hip" else ""
        raise UsageError(refusal_of_arch(arch) + other)
    return device


def _another_is_for(device: Device, solvers_named: Collection[str]) -> bool:
    """Whether a solver that is not ours is for such devices: Triton's architectures bind ours.

    A program of its own knows its architectures; it counts where it is asked for.
    """
    for solver in every():
        driven = isinstance(solver, DrivingSolver) and solver.name in solvers_named
        builds = isinstance(solver, BuildingSolver) and not isinstance(solver, TritonSolver)
        if (driven or builds) and is_for(solver, device):
            return True
    return False


class Solvers:
    """Which solvers get a job each, and how many were refused."""

    def __init__(self, wish: str, targets: dict[str, Device]) -> None:
        self._targets = targets
        self._problems: dict[str, Problem] = {}
        self._wish = wish
        self._asked = None if wish == AUTO else _named(wish)
        self.refused = 0

    def of(self, draft: Plan) -> list[str]:
        """The solvers' names for a problem on a device."""
        if self._asked is None:
            return [AUTO]
        problem, device = self._problem(draft.problem), self._targets[draft.device]
        asked = self._asked
        if self._wish == ALL:
            asked = [solver for solver in asked if is_for(solver, device)]
        able = [solver.name for solver in asked if not refusal(solver, problem, device)]
        self.refused += len(asked) - len(able)
        return able

    def _problem(self, key: str) -> Problem:
        """Parsed once for all devices."""
        found = self._problems.get(key)
        if found is None:
            found = self._problems[key] = parse(key)
        return found


def _named(wish: str) -> Sequence[Solver]:
    """Those that are wished for, or all that build."""
    if wish == ALL:
        return [solver for solver in every() if isinstance(solver, BuildingSolver)]
    return [_with_jobs(name.strip()) for name in dict.fromkeys(wish.split(","))]


def _with_jobs(name: str) -> Solver:
    """A solver that jobs can be made for: one that builds, or a program of its own."""
    if name in (JobKind.FIND, JobKind.KERNELS):
        option = "--find" if name == JobKind.FIND else "--kernel-cache"
        raise UsageError(
            f"{name} is no solver: load the jobs without it, then skipjack run -l LABEL {option}"
        )
    if name in (AUTO, ALL):
        raise UsageError(f"solver {name} stands alone: it cannot be combined with others")
    solver = find_solver(name)
    if not isinstance(solver, BuildingSolver | DrivingSolver):
        raise UsageError(f"solver {name} is a library to compare with; it has nothing to tune")
    return solver
