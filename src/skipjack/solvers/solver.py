"""What a solver must provide: applicability, a space, and the way from a config to running code.

Building and running are separate. `lower` and `compile` run in a build worker on any machine; the
artifact is shipped; `slots` tells the run session on the device how to call it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from skipjack.core import ABI, CPU_DTYPES, Arrays, Config, Device, Problem, Space

if TYPE_CHECKING:
    from skipjack.interop.miopen import Family

Slot = str | int
"""A kernel argument: the name of a tensor, or an integer."""


@dataclass(frozen=True, slots=True)
class Source:
    """Everything that decides the machine code. Equal digests mean one build."""

    text: str
    target: str
    """Triple, CPU and features."""
    compiler: str
    """Name and version."""
    symbol: str = "kernel"

    @property
    def digest(self) -> str:
        """The content key of the build."""
        parts = "\0".join((self.text, self.target, self.compiler, self.symbol, ABI))
        return hashlib.sha256(parts.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Blob:
    """A compiled kernel as bytes, with what is needed to load and launch it on another machine."""

    data: bytes
    symbol: str = "kernel"
    abi: str = ABI
    resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of the bytes; checked before they are loaded."""
        return hashlib.sha256(self.data).hexdigest()


@runtime_checkable
class Solver(Protocol):
    """A way to compute an operation on a kind of device.

    Derive from it to inherit the defaults of the attributes, and declare only what differs. A class
    that does not derive from it may omit the attributes with a default; `register` adds them.
    """

    name: str
    version: int
    """Increase it when the meaning of a config changes."""
    kinds: Sequence[str] = ("cpu",)
    """Supported kinds of devices (cpu, cuda, hip); `refuses` is not called for others."""
    dtypes: Sequence[str] = CPU_DTYPES
    """Supported element types; `refuses` is not called for others."""
    compared: bool = False
    """For a library: whether tuned kernels are timed against it and must not be slower."""
    algorithm: Family = "Direct"
    """The family of algorithms (GEMM, Direct, FFT, Winograd, ImplicitGEMM) that MIOpen's find-dbs
    state for it."""
    preferred: bool = False
    """Whether it is the default, ahead of the solvers that come with Skipjack."""

    def refuses(self, problem: Problem, device: Device) -> str:
        """Why this solver cannot compute the problem; empty if it can."""
        ...

    def space(self, problem: Problem, device: Device) -> Space:
        """The configs of a problem."""
        ...


@runtime_checkable
class BuildingSolver(Solver, Protocol):
    """A solver whose candidates are compiled ahead of running."""

    def compiler(self) -> str:
        """Name and version of the compiler; builds of another compiler are not reused."""
        ...

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The source to compile; pure and cheap."""
        ...

    def compile(self, source: Source) -> Blob:
        """Machine code. Runs in a build worker, which it may crash."""
        ...

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """The arguments of a call, in order."""
        ...


@runtime_checkable
class SourceAware(Protocol):
    """A solver whose builds depend on more than the candidate and a compatible device."""

    def same_source(
        self, problem: Problem, device: Device, config: Config, digest: str, compiler: str
    ) -> bool:
        """Whether the source with this digest is what would be built now."""
        ...


@runtime_checkable
class RacingSolver(Protocol):
    """A solver that may be tuned in addition to the first one, if the user named none."""

    def promise(self, problem: Problem, device: Device) -> float:
        """0: not worth a trial; below 1: worth some; above 1: likely better than the first."""
        ...


@runtime_checkable
class LooseSolver(Protocol):
    """A solver whose arithmetic rounds more than the plain sum for which tolerances are set."""

    def tolerance_factor(self, problem: Problem) -> float:
        """The factor by which the operation's tolerance is multiplied for its results."""
        ...


def tolerance_factor_of(solver: Solver, problem: Problem) -> float:
    """The tolerance factor of any solver; 1 for most."""
    return solver.tolerance_factor(problem) if isinstance(solver, LooseSolver) else 1.0


@runtime_checkable
class VendorSolver(Solver, Protocol):
    """A library to compare with, which is called from Python and not built."""

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """A call on exactly these arrays, which include the output.

        It is a `ResultCall` if the library returns its result in newly allocated memory.
        """
        ...


@runtime_checkable
class ImportingSolver(Protocol):
    """A library whose package takes seconds to import; it is imported before a search begins."""

    imports: str
    """The name of the package."""


@dataclass(frozen=True, slots=True)
class ResultCall:
    """The call of a library that cannot write into a given output.

    Users of such a library take the array that it returns, so timers time `compute` alone. Calling
    the object also copies the result into the output.
    """

    compute: Callable[[], Any]
    store: Callable[[Any], object]

    def __call__(self) -> None:
        """Compute, and store the result in the output."""
        self.store(self.compute())


@runtime_checkable
class NativeVendorSolver(Solver, Protocol):
    """A library that is called through its C interface, without Python in between."""

    def thunk(self, problem: Problem) -> tuple[str, Sequence[Slot]]:
        """The IR of a ``@kernel`` that makes the call, and its slots."""
        ...


@runtime_checkable
class GpuVendorSolver(Solver, Protocol):
    """A library to compare with on GPUs, called from Python on PyTorch tensors."""

    def bind_gpu(self, problem: Problem, tensors: Mapping[str, Any]) -> Callable[[], object]:
        """A call on exactly these tensors in the GPU's memory, which include the outputs.

        It queues work on PyTorch's current stream. It is a `ResultCall` if the library returns its
        result in newly allocated memory.
        """
        ...


@runtime_checkable
class GpuFunctionSolver(GpuVendorSolver, Protocol):
    """A library on GPUs whose call can be prepared once for any tensors."""

    def gpu_function(self, problem: Problem) -> Callable[[Mapping[str, Any]], object] | None:
        """The call of `bind_gpu` as a function of the tensors; None if the library has none.

        It depends on no setting of PyTorch except the precision of products in float32 at the time
        of the call.
        """
        ...


@runtime_checkable
class DrivingSolver(Solver, Protocol):
    """A solver that is an external program, which searches, builds, checks and times on its own.

    Nothing of it is built or timed in a session, and its times are not comparable with those of a
    session, so that it is never ranked with other solvers. Only fleet jobs that name it run it.
    """

    def arguments(self, problem: Problem) -> Sequence[str]:
        """The arguments of the command that searches, without the program's name."""
        ...
