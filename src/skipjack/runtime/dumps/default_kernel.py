"""The kernel that Skipjack uses for an untuned problem: its code is written, but not run.

It comes from the banks in force, or else from the most promising solver's first proposal. Nothing
is verified, timed or cached: run such a file only if you trust the dump.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata

from skipjack.bank import BankEntry, is_library, layers_of
from skipjack.core import Candidate, Config, Device, Problem, Promising
from skipjack.errors import SkipjackError
from skipjack.native import ForkOrder, forks_wait_for
from skipjack.runtime.dumps.problem import DefaultKernel
from skipjack.settings import Settings
from skipjack.solvers import BuildingSolver, find_solver, is_known, solvers_for

PROPOSAL = "proposal"
_PACKAGES = {"mkl": "mkl", "cblas": "numpy", "numpy": "numpy"}
"""Packages of the CPU libraries; the others come with PyTorch."""
_building = threading.Lock()
forks_wait_for(_building, ForkOrder.DEFAULT_KERNEL)


@dataclass(frozen=True, slots=True)
class BuiltDefault:
    """The default kernel and its files."""

    kernel: DefaultKernel
    code: Mapping[str, bytes] = field(default_factory=dict)


def default_kernel(problem: Problem, device: Device, settings: Settings) -> BuiltDefault:
    """The default kernel for a problem on a device; if it has no code, its `reason` says why."""
    chosen = DefaultKernel(PROPOSAL, "")
    try:
        chosen = _banked(problem, device, settings) or _proposed(problem, device)
        return BuiltDefault(chosen) if chosen.library else _built(chosen, problem, device)
    except Exception as error:  # a solver may raise anything, which must not end the dump
        said = (
            str(error) if isinstance(error, SkipjackError) else f"{type(error).__name__}: {error}"
        )
        return BuiltDefault(DefaultKernel(chosen.source, chosen.solver, reason=said[:300]))


def _banked(problem: Problem, device: Device, settings: Settings) -> DefaultKernel | None:
    """The kernel of the first bank that knows the problem, if it can be built here."""
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        for entry in layer.ranked(problem.key, device.class_key):
            found = _named(layer.name, entry)
            if found is not None:
                return found
    return None


def _named(source: str, entry: BankEntry) -> DefaultKernel | None:
    if is_library(entry):
        return DefaultKernel(source, entry.solver, library=library_version(entry.solver))
    if not is_known(entry.solver):
        return None
    solver = find_solver(entry.solver)
    if not isinstance(solver, BuildingSolver) or solver.version != entry.solver_version:
        return None
    return DefaultKernel(source, solver.name, solver.version, dict(entry.config))


def _proposed(problem: Problem, device: Device) -> DefaultKernel:
    """The first config that the most promising solver would try."""
    solver = solvers_for(problem, device)[0]
    space = solver.space(problem, device)
    first = next(iter(space.promising(1)), None) if isinstance(space, Promising) else None
    if first is None:
        raise SkipjackError(f"solver {solver.name} proposes no config without measurements")
    return DefaultKernel(PROPOSAL, solver.name, solver.version, dict(first))


def _built(chosen: DefaultKernel, problem: Problem, device: Device) -> BuiltDefault:
    solver, config = find_solver(chosen.solver), Config(dict(chosen.config))
    assert isinstance(solver, BuildingSolver), "libraries were handled before"
    if device.kind != "cpu":
        return _built_for_gpu(chosen, Candidate(problem, solver.name, config), device)
    with _building:
        source = solver.lower(problem, device, config)
        blob = solver.compile(source)
        slots = tuple(solver.slots(problem, device, config))
    code = {"default.o": blob.data}
    return _with(chosen, code, source.compiler, device, blob.symbol, blob.abi, slots)


def _built_for_gpu(chosen: DefaultKernel, candidate: Candidate, device: Device) -> BuiltDefault:
    from skipjack.gpu import unpack
    from skipjack.runtime.checks import build_for_gpu

    code, build = build_for_gpu(candidate, device)
    artifact = unpack(code.data)
    extension = "cubin" if device.kind == "cuda" else "hsaco"
    files = [f"default.{kernel.name}.{extension}" for kernel in artifact.kernels]
    abis = tuple(
        {"file": file, **asdict(kernel)}
        for file, kernel in zip(files, artifact.kernels, strict=True)
    )
    named = dict(zip(files, artifact.binaries, strict=True))
    return _with(chosen, named, build.compiler, device, code.symbol, code.abi, code.slots, abis)


def _with(
    chosen: DefaultKernel,
    code: Mapping[str, bytes],
    compiler: str,
    device: Device,
    symbol: str,
    abi: str,
    slots: tuple[str | int, ...],
    kernels: tuple[Mapping[str, object], ...] = (),
) -> BuiltDefault:
    kernel = DefaultKernel(
        source=chosen.source,
        solver=chosen.solver,
        solver_version=chosen.solver_version,
        config=chosen.config,
        files={name: hashlib.sha256(data).hexdigest() for name, data in code.items()},
        compiler=compiler,
        compat=device.compat_key,
        symbol=symbol,
        abi=abi,
        slots=slots,
        kernels=kernels,
    )
    return BuiltDefault(kernel, code)


def library_version(solver: str) -> str:
    """The package that contains this library, and its version."""
    package = _PACKAGES.get(solver, "torch")
    try:
        return f"{package} {metadata.version(package)}"
    except metadata.PackageNotFoundError:
        return package
