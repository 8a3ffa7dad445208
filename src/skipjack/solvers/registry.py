"""The known solvers by name, and the choice of solvers for a problem."""

from __future__ import annotations

import difflib
import functools
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from skipjack.core import (
    DTYPES,
    Device,
    NestOperation,
    Problem,
    ProgramOperation,
    check_members,
    check_new_name,
    guard_methods,
    has_any_method,
    listed,
    plugin_label,
)
from skipjack.errors import ForeignError, SkipjackError, UsageError, foreign_code
from skipjack.gpu import describe_gpu
from skipjack.operations import get, parse
from skipjack.plugins import EntryPoints, named_instance
from skipjack.solvers.built_in import BUILT_IN, BuiltIn, Use, load
from skipjack.solvers.solver import (
    BuildingSolver,
    DrivingSolver,
    GpuVendorSolver,
    LooseSolver,
    NativeVendorSolver,
    RacingSolver,
    Solver,
    SourceAware,
    VendorSolver,
)

log = logging.getLogger(__name__)

_known: dict[str, Solver | BuiltIn] = {one.name: one for one in BUILT_IN}
"""Built-in solvers first, which are loaded when they are used; those of plug-ins after them."""
_CLOSE = 0.7
"""The similarity from which on a name is suggested in place of a misspelled one."""
EXAMPLE_GPUS = ("sm_90/132", "gfx942/304")
"""One GPU of each vendor, for questions about GPUs in general."""
_WAYS = (BuildingSolver, VendorSolver, NativeVendorSolver, GpuVendorSolver, DrivingSolver)
"""The protocols that add methods to `Solver`."""
_warned: set[tuple[str, str, str]] = set()
"""Solver, method and problem of the errors that were logged."""
_KIND_NAMES = {"cpu": "CPUs", "cuda": "NVIDIA's GPUs", "hip": "AMD's GPUs"}


def register(solver: Solver) -> None:
    """Add a solver. Unless it is `preferred`, it is the default only where no other applies.

    Attributes that it does not declare get the defaults of `Solver`.
    """
    check_members("solver", solver, Solver)
    check_new_name("solver", solver.name, _known)
    ways = [way for way in _WAYS if has_any_method(solver, way, Solver)]
    if not ways:
        raise UsageError(
            f"{plugin_label('solver', solver)} has neither the methods that build a kernel "
            "(compiler, lower, compile, slots) nor "
            "one that calls a library (bind, thunk or bind_gpu)"
        )
    for way in ways:
        check_members("solver", solver, way)
    guard_methods("solver", solver, (*_WAYS, RacingSolver, LooseSolver, SourceAware))
    _check_declarations(solver)
    _known[solver.name] = solver


def _check_declarations(solver: Solver) -> None:
    """Refuse declarations that could never match, such as a string in place of a tuple."""
    # Imported here: with every lookup it would load MIOpen's formats, which plug-ins alone need.
    from skipjack.interop.miopen import FAMILIES

    this = plugin_label("solver", solver)
    with foreign_code(this):
        kinds, dtypes = solver.kinds, solver.dtypes
        of_texts = not isinstance(kinds, str) and all(isinstance(kind, str) for kind in kinds)
        known = not isinstance(dtypes, str) and all(dtype in DTYPES for dtype in dtypes)
    if not (kinds and of_texts):
        raise UsageError(f"{this}: kinds is {kinds!r}; write a tuple of cpu, cuda or hip")
    if not (dtypes and known):
        raise UsageError(f"{this}: dtypes is {dtypes!r}; write a tuple of {', '.join(DTYPES)}")
    if solver.algorithm not in FAMILIES:
        choices = listed(FAMILIES, "or")
        raise UsageError(f"{this}: algorithm is {solver.algorithm!r}; choose {choices}")


def _held(name: str) -> object | None:
    return _known.get(name)


def _add_installed(name: str, found: object) -> None:
    register(named_instance("solver", name, found))


@functools.cache
def installed() -> EntryPoints:
    """Plug-ins of other distributions."""
    return EntryPoints("solver", "skipjack.solvers", _held, _add_installed)


@contextmanager
def only_solvers(*solvers: Solver) -> Iterator[None]:
    """Hide all other solvers within the context: for tests without a compiler."""
    before = dict(_known)
    _known.clear()
    try:
        for solver in solvers:
            register(solver)
        with installed().hidden():
            yield
    finally:
        _known.clear()
        _known.update(before)


def names() -> list[str]:
    """The names of all known solvers, sorted; no built-in solver is loaded."""
    installed().load_all()
    return sorted(_known)


def is_known(name: str) -> bool:
    """Whether `find_solver` finds it; plug-ins are loaded only if it is not built in."""
    if name not in _known:
        installed().load(name)
    return name in _known


def all_solvers() -> list[Solver]:
    """All solvers, loaded and sorted by name."""
    return [find_solver(name) for name in names()]


def only_built_in() -> bool:
    """Whether all known solvers come with Skipjack; no solver is loaded."""
    return all(isinstance(one, BuiltIn) for one in _known.values()) and installed().is_empty()


def find_solver(name: str) -> Solver:
    """The solver of this name; `UsageError` with the closest match if there is none."""
    if not is_known(name):
        close = difflib.get_close_matches(name, names(), 1, _CLOSE)
        hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(names())}"
        raise UsageError(f"unknown solver {name!r}: {hint}")
    known = _known[name]
    return load(known) if isinstance(known, BuiltIn) else known


def _candidate_solvers(problem: Problem, device: Device, use: Use) -> Iterator[Solver]:
    """Solvers that may apply to a problem, preferred ones first; others of ours are not loaded."""
    installed().load_all()
    for known in sorted(_known.values(), key=_is_behind):
        if not isinstance(known, BuiltIn):
            yield known
        elif known.use is use and known.may_do(problem, device):
            yield load(known)


def _is_behind(known: Solver | BuiltIn) -> bool:
    """Sort key: preferred solvers of plug-ins come before all others."""
    return isinstance(known, BuiltIn) or not known.preferred


def building_for(device: Device) -> list[BuildingSolver]:
    """All solvers that build for devices of this kind, by name; others of ours are not loaded."""
    found = []
    installed().load_all()
    for name, known in sorted(_known.items()):
        if isinstance(known, BuiltIn) and not known.builds_for(device):
            continue
        solver = find_solver(name)
        if isinstance(solver, BuildingSolver) and supports_device(solver, device):
            found.append(solver)
    return found


def refusal(solver: Solver, problem: Problem, device: Device) -> str:
    """Why a solver cannot compute a problem on a device; empty if it can.

    `refuses` is called only if `kinds` and `dtypes` allow the problem. An exception counts as a
    refusal.
    """
    if not supports_device(solver, device):
        verb = "builds" if isinstance(solver, BuildingSolver) else "is"
        return f"it {verb} for {_kind_names(solver.kinds)}, not for {device.name}"
    if problem.dtype not in solver.dtypes:
        return f"it computes in {listed(solver.dtypes)}, not in {problem.dtype}"
    try:
        return solver.refuses(problem, device)
    except Exception as error:
        return _log_raised(solver.name, "refuses", problem, error)


def _promise_of(solver: Solver, problem: Problem, device: Device) -> float:
    """A solver's `promise`; 0 if it raises or has none."""
    if not isinstance(solver, RacingSolver):
        return 0.0
    try:
        return solver.promise(problem, device)
    except Exception as error:
        _log_raised(solver.name, "promise", problem, error)
        return 0.0


def _log_raised(name: str, method: str, problem: Problem, error: Exception) -> str:
    """Log once for each problem that a solver raised, and go on without that solver."""
    what = f"its {method} raised {type(error).__name__}: {error}"
    if isinstance(error, ForeignError):
        what = str(error)
    if (name, method, problem.key) not in _warned:
        _warned.add((name, method, problem.key))
        log.warning("solver %s is left out for %s: %s", name, problem.key, what)
    return what


def supports_device(solver: Solver, device: Device) -> bool:
    """Whether a solver supports devices of this kind."""
    return device.kind in solver.kinds


def _kind_names(kinds: Sequence[str]) -> str:
    if {*kinds} == {"cuda", "hip"}:
        return "GPUs"
    return listed([_KIND_NAMES.get(kind, kind) for kind in kinds])


def building_solvers(problem: Problem, device: Device) -> list[BuildingSolver]:
    """Solvers that can be tuned for this problem, preferred ones first."""
    return [
        solver
        for solver in _candidate_solvers(problem, device, Use.BUILT)
        if isinstance(solver, BuildingSolver) and not refusal(solver, problem, device)
    ]


def solvers_for(problem: Problem, device: Device, name: str | None = None) -> list[BuildingSolver]:
    """The solvers to tune: the one named, or several, ranked by `promise`.

    Preferred solvers of plug-ins and the first of the others are always included, the rest if their
    `promise` is above 0. Preferred solvers stay first, whatever others promise.
    """
    if name is not None:
        return [_named(problem, device, name)]
    able = building_solvers(problem, device)
    if not able:
        raise UsageError(refusal_of_all(problem, device))
    preferred = [solver for solver in able if solver.preferred]
    others = [solver for solver in able if not solver.preferred]
    promises = [(1.0, solver) for solver in (*preferred, *others[:1])]
    for solver in others[1:]:
        if promise := _promise_of(solver, problem, device):
            promises.append((promise, solver))
    ranked = sorted(promises, key=lambda pair: (not pair[1].preferred, -pair[0]))
    return [solver for _, solver in ranked]


def refusal_of_all(problem: Problem, device: Device) -> str:
    """A sentence that says why no solver builds a problem."""
    on_cpu = device.kind == "cpu"
    on_gpus = needs_gpu(problem, device)
    possible = _possible_dtypes(problem, device)
    if possible:
        return (
            f"no solver computes {problem.operation} in {problem.dtype} "
            f"on {'a CPU' if on_cpu else device.name}; choose {listed(possible, 'or')}"
            f"{', or a GPU' if on_gpus else ''}"
        )
    if on_gpus:
        return f"no solver can build {problem.key} for {device.name}: its solvers support GPUs only"
    return f"no solver can build {problem.key} for {device.name}; {_refusal_hint(problem, device)}"


def needs_gpu(problem: Problem, device: Device) -> bool:
    """Whether a solver builds a problem for GPUs, and none does for this CPU."""
    if device.kind != "cpu" or building_solvers(problem, device):
        return False
    return any(building_solvers(problem, describe_gpu(name)) for name in EXAMPLE_GPUS)


def _possible_dtypes(problem: Problem, device: Device) -> list[str]:
    return [
        dtype
        for dtype in get(problem.operation).dtypes
        if building_solvers(replace(problem, dtype=dtype), device)
    ]


def _refusal_hint(problem: Problem, device: Device) -> str:
    """The commonest reason of the solvers that know the operation, or a hint."""
    knowing = [
        solver
        for solver in map(find_solver, [*_known])
        if isinstance(solver, BuildingSolver)
        and supports_device(solver, device)
        and (solver.name == problem.operation or _knows(solver, problem.operation, device))
    ]
    own = [solver for solver in knowing if solver.name == problem.operation]
    reasons = Counter(refusal(solver, problem, device) for solver in own or knowing)
    if reasons:
        return f"the solvers of {problem.operation} say: {reasons.most_common(1)[0][0]}"
    operation = get(problem.operation)
    code = isinstance(operation, NestOperation | ProgramOperation)
    if device.kind == "cpu" and not code:
        return (
            f"{plugin_label('operation', operation)} has neither nest nor programs, from which "
            "code is generated; write one of them, or a solver of your own"
        )
    return (
        f"no solver for {_kind_names([device.kind])} knows {problem.operation}; "
        "add a solver of your own"
    )


def _knows(solver: Solver, name: str, device: Device) -> bool:
    """Whether a solver accepts an operation's example in any element type."""
    operation = get(name)
    try:
        example = parse(operation.example)
    except SkipjackError:
        return False
    return any(
        not refusal(solver, replace(example, dtype=dtype), device) for dtype in operation.dtypes
    )


def solver_for(problem: Problem, device: Device, name: str | None = None) -> BuildingSolver:
    """The solver that was named, or the one with the highest `promise`."""
    return solvers_for(problem, device, name)[0]


def _named(problem: Problem, device: Device, name: str) -> BuildingSolver:
    solver = find_solver(name)
    if isinstance(solver, DrivingSolver):
        raise UsageError(driver_refusal(name))
    if not isinstance(solver, BuildingSolver):
        raise UsageError(f"solver {name} is a library to compare with; it has nothing to tune")
    reason = refusal(solver, problem, device)
    if reason:
        raise UsageError(f"solver {name} cannot do {problem.key}: {reason}")
    return solver


def driver_refusal(name: str) -> str:
    """The error for a solver that is an external program and cannot be tuned in a session."""
    return f"{name} runs its own search and timing: create jobs with skipjack load --solver {name}"


def vendors_for(problem: Problem, device: Device) -> list[Solver]:
    """Installed libraries to compare with that can compute the problem, NumPy first."""
    return [
        solver
        for solver in _candidate_solvers(problem, device, Use.COMPARED)
        if not isinstance(solver, BuildingSolver)
        and solver.compared
        and not refusal(solver, problem, device)
    ]
