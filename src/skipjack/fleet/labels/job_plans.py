"""Plans of jobs: which problems, on which devices, with which solvers.

By default a job is a problem on a device, and all promising solvers compete in it. With
``--solver all`` there is a job for every solver that supports the problem on the device.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from skipjack.core import DTYPES, Device, Problem, listed, parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.model import AUTO, MIOPEN, JobKind, JobPlan
from skipjack.fleet.store import ProblemRow, ambiguous_device, by_name, distinguishing_names
from skipjack.fleet.toolchain import toolchain
from skipjack.gpu import KNOWN, is_gpu_arch, named_gpu, refusal_of_arch
from skipjack.operations import get, parse
from skipjack.operations import names as operation_names
from skipjack.search import check_name
from skipjack.solvers import (
    BuildingSolver,
    DrivingSolver,
    Solver,
    all_solvers,
    find_solver,
    refusal,
    supports_device,
)
from skipjack.solvers.gpu.triton import TritonSolver

if TYPE_CHECKING:
    from skipjack.fleet.store import Store


ALL = "all"
DIRECTIONS = ("fwd", "bwd", "wrw")


@dataclass(frozen=True, slots=True)
class ProblemSelection:
    """Which problems get jobs: those of a tag or a label, recurrent ones, misses of programs, or
    all; the other fields filter them."""

    tag: str | None = None
    everything: bool = False
    from_label: str | None = None
    recurrent: bool = False
    stale: bool = False
    """Only problems without a result, or with results of another toolchain."""
    operations: tuple[str, ...] = ()
    """Names or patterns such as ``conv*``; empty: all."""
    directions: tuple[str, ...] = ()
    """Empty: all. Operations without directions always match."""
    dtype: str | None = None
    missed: tuple[JobPlan, ...] = ()
    """Misses of programs, with their devices, in the order of the jobs."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to tune. A field that is None has its default, or its value in the copied label."""

    devices: tuple[str, ...] = ()
    solver: str | None = None
    """``auto``, ``all``, or names separated by commas."""
    searcher: str | None = None
    seed: int | None = None
    budget: int | None = None
    round: int | None = None
    label: str = ""
    """The label that gets the jobs; its jobs decide between devices of one name."""
    as_on: str = ""
    """A machine whose device is chosen among those of one name."""
    here: tuple[Device, ...] = ()
    """Devices of this machine, chosen among those of one name if the user named none."""


@dataclass(frozen=True, slots=True)
class PlannedJobs:
    """The plans, and the number of those left out."""

    plans: list[JobPlan] = field(default_factory=list)
    problems: int = 0
    """Number of selected problems."""
    not_applicable: int = 0
    """Pairs of a requested solver and a problem that it does not support on the device."""
    fresh: int = 0
    """Problems on devices that are up to date, if only stale ones were requested."""
    chosen: Mapping[str, Device] = field(default_factory=dict)
    """The real device of each name."""


def plan_jobs(store: Store, selection: ProblemSelection, options: PlanOptions) -> PlannedJobs:
    """The plans of jobs for the selected problems; `UsageError` for a contradictory request."""
    _check(selection)
    if options.searcher is not None:
        options = replace(options, searcher=check_name(options.searcher))
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
    devices = options.devices or tuple(plan.device for plan in copied)
    matching = map(str.strip, (options.solver or "").split(","))
    solvers_named = {*matching, *(plan.solver for plan in copied)}
    real_devices = {
        name: _chosen_device(store, name, selection, options) for name in dict.fromkeys(devices)
    }
    targets = {name: _device(real, name, solvers_named) for name, real in real_devices.items()}
    if selection.from_label or selection.missed:
        drafts = _copied(copied, rows, options)
    elif targets:
        drafts = [
            _with_options(JobPlan(row.key, name), options) for name in targets for row in rows
        ]
    else:
        raise UsageError("no device is named; name one, for example --device znver4/1")
    solvers = SolverChoice(options.solver or AUTO, targets)
    selected = len({draft.problem for draft in drafts})
    wanted = _stale_only(store, rows, drafts, targets) if selection.stale else drafts
    fresh = len(drafts) - len(wanted)
    plans = list(wanted)
    if options.solver is not None:
        chosen = dict.fromkeys(replace(draft, solver=AUTO) for draft in wanted)
        plans = [_for_solver(draft, name) for draft in chosen for name in solvers.of(draft)]
    real = {name: device for name, device in real_devices.items() if device}
    return PlannedJobs(plans, selected, solvers.refused, fresh, real)


def _for_solver(draft: JobPlan, name: str) -> JobPlan:
    """The plan for a solver; MIOpen also does the further jobs of its label."""
    if name == MIOPEN:
        return replace(draft, solver=name, searcher=AUTO, driver=MIOPEN)
    return replace(draft, solver=name, driver="")


def _check(selection: ProblemSelection) -> None:
    sources = selection.tag, selection.from_label, selection.recurrent, selection.missed
    if not (selection.everything or any(sources)):
        raise UsageError(
            "no problems are selected; name a tag, a label to copy, recurrent ones, misses, or all"
        )
    if selection.everything and (selection.tag or selection.from_label):
        raise UsageError(
            "all problems cannot be combined with a tag or a label; choose one of them"
        )
    if selection.dtype is not None and selection.dtype not in DTYPES:
        raise UsageError(f"unknown dtype {selection.dtype!r}; choose {listed(tuple(DTYPES), 'or')}")
    for direction in selection.directions:
        if direction not in DIRECTIONS:
            raise UsageError(
                f"unknown direction {direction!r}; choose {', '.join(DIRECTIONS)} or all"
            )


def operations_named(wanted: Sequence[str]) -> list[str]:
    """The operations that match names or patterns; `ProblemError` for an unknown name."""
    real_devices: list[str] = []
    for name in wanted:
        found = fnmatch.filter(operation_names(), name)
        real_devices += found or [get(name).name]
    return real_devices


def _with_options(plan: JobPlan, options: PlanOptions) -> JobPlan:
    """The plan with the options applied; a round never exceeds the budget."""
    budget = plan.budget if options.budget is None else options.budget
    size = plan.round if options.round is None else options.round
    for what, number in (("budget", budget), ("round", size)):
        if number < 1:
            raise UsageError(f"a {what} has at least one trial; {number} is too small")
    return replace(
        plan,
        searcher=plan.searcher if options.searcher is None else options.searcher,
        seed=plan.seed if options.seed is None else options.seed,
        budget=budget,
        round=min(size, budget),
    )


def _copied(
    plans: Sequence[JobPlan], rows: Sequence[ProblemRow], options: PlanOptions
) -> list[JobPlan]:
    """Plans of a label whose problems are selected, on its devices or on those requested."""
    selected = {row.key for row in rows}
    mine = [_with_options(plan, options) for plan in plans if plan.problem in selected]
    if not options.devices:
        return mine
    return list(
        dict.fromkeys(replace(plan, device=name) for name in options.devices for plan in mine)
    )


def _stale_only(
    store: Store,
    rows: Sequence[ProblemRow],
    drafts: Sequence[JobPlan],
    targets: Mapping[str, Device],
) -> list[JobPlan]:
    ids = {row.key: row.id for row in rows}
    stale = {
        device: store.jobs.stale(targets[device], toolchain(targets[device]), ids.values())
        for device in dict.fromkeys(draft.device for draft in drafts)
    }
    return [draft for draft in drafts if ids[draft.problem] in stale[draft.device]]


def _chosen_device(
    store: Store, name: str, selection: ProblemSelection, options: PlanOptions
) -> Device | None:
    """The real device of a name: that of the label's other jobs, of the named machine, of this
    machine if the user named no device, or the only one seen. None if none was seen; `UsageError`
    if there are several.
    """
    parse_device_name(name)
    bound = store.machines.known_device(name, options.label) if options.label else None
    found = store.machines.device_classes(name)
    if options.as_on:
        on = next((one.device for one in found if options.as_on in one.machines), None)
        if on is None:
            raise UsageError(
                f"no machine {options.as_on} with {name} was seen; known: "
                f"{distinguishing_names(found) or 'no machine with it yet'}"
            )
        if bound and bound.class_key != on.class_key:
            raise UsageError(
                f"label {options.label} is for another {name} than that of {options.as_on}; "
                "load the jobs into a new label"
            )
        return on
    if bound or (len(found) <= 1 and not options.here):
        return bound or (found[0].device if found else None)
    here = next((device for device in options.here if device.name == name), None)
    if here:
        return here if found else None
    copied = (
        store.machines.known_device(name, selection.from_label) if selection.from_label else None
    )
    if copied and any(one.device.class_key == copied.class_key for one in found):
        return copied
    raise ambiguous_device(name, found)


def _device(known: Device | None, name: str, solvers_named: Collection[str]) -> Device:
    """The device, real or as its name describes it; `UsageError` if no solver builds for it."""
    arch, _ = parse_device_name(name)
    if not is_gpu_arch(arch) or arch in KNOWN:
        return known or by_name(name)
    device = known or named_gpu(name)
    if not _another_is_for(device, solvers_named):
        other = f"; MIOpen may support it: --solver {MIOPEN}" if device.kind == "hip" else ""
        raise UsageError(refusal_of_arch(arch) + other)
    return device


def _another_is_for(device: Device, solvers_named: Collection[str]) -> bool:
    """Whether a solver other than our Triton solvers supports such a device.

    A solver that runs a program of its own counts only if the user named it.
    """
    for solver in all_solvers():
        driven = isinstance(solver, DrivingSolver) and solver.name in solvers_named
        builds = isinstance(solver, BuildingSolver) and not isinstance(solver, TritonSolver)
        if (driven or builds) and supports_device(solver, device):
            return True
    return False


class SolverChoice:
    """The solvers that get a job each, and the number of those refused."""

    def __init__(self, requested: str, targets: dict[str, Device]) -> None:
        self._targets = targets
        self._problems: dict[str, Problem] = {}
        self._requested = requested
        self._asked = None if requested == AUTO else _named(requested)
        self.refused = 0

    def of(self, draft: JobPlan) -> list[str]:
        """The names of the solvers for a problem on a device."""
        if self._asked is None:
            return [AUTO]
        problem, device = self._problem(draft.problem), self._targets[draft.device]
        asked = self._asked
        if self._requested == ALL:
            asked = [solver for solver in asked if supports_device(solver, device)]
        able = [solver.name for solver in asked if not refusal(solver, problem, device)]
        self.refused += len(asked) - len(able)
        return able

    def _problem(self, key: str) -> Problem:
        """The problem of a key, parsed once for all devices."""
        found = self._problems.get(key)
        if found is None:
            found = self._problems[key] = parse(key)
        return found


def _named(requested: str) -> Sequence[Solver]:
    """The requested solvers, or all that build."""
    if requested == ALL:
        return [solver for solver in all_solvers() if isinstance(solver, BuildingSolver)]
    return [_with_jobs(name.strip()) for name in dict.fromkeys(requested.split(","))]


def _with_jobs(name: str) -> Solver:
    """A solver that jobs can use: one that builds, or one that runs a program of its own."""
    if name in (JobKind.FIND, JobKind.KERNELS):
        option = "--find" if name == JobKind.FIND else "--kernel-cache"
        raise UsageError(
            f"{name} is not a solver; load the jobs without it, then skipjack run -l LABEL {option}"
        )
    if name in (AUTO, ALL):
        raise UsageError(f"solver {name} cannot be combined with others; name it alone")
    solver = find_solver(name)
    if not isinstance(solver, BuildingSolver | DrivingSolver):
        raise UsageError(
            f"solver {name} is a library, which has nothing to tune; name a solver that builds"
        )
    return solver
