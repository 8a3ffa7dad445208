"""What a solver must offer: applicability, a space, and a way from a config to something that runs.

Building and running are apart. `lower` and `compile` happen in a build worker on any machine; the
artifact travels; `slots` says how a run session on the device must call it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from skipjack.core.config import Config
from skipjack.core.device import ABI as ABI
from skipjack.core.device import Device
from skipjack.core.dtypes import CPU_DTYPES
from skipjack.core.operation import Arrays
from skipjack.core.problem import Problem
from skipjack.core.space import Space

if TYPE_CHECKING:
    from skipjack.interop.miopen import Family

Slot = str | int
"""A kernel argument: the name of a tensor, or a whole number."""


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
        """Content key of the build."""
        parts = "\0".join((self.text, self.target, self.compiler, self.symbol, ABI))
        return hashlib.sha256(parts.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that ship and load elsewhere, with what is needed to launch them."""

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
    """One way to compute an operation on a kind of device.

    Derive from it to inherit the defaults of the attributes, and declare what is different. A class
    that does not derive from it may leave out those that have a default; they are added when it
    registers.
    """

    name: str
    version: int
    """Raised when the meaning of a config changes."""
    kinds: Sequence[str] = ("cpu",)
    """Kinds of devices that it is for (cpu, cuda, hip): `refuses` is not asked about others."""
    dtypes: Sequence[str] = CPU_DTYPES
    """Element types that it computes in: `refuses` is not asked about others."""
    compared: bool = False
    """Of a library: whether tuned kernels are timed against it and must not be slower."""
    algorithm: Family = "Direct"
    """Of MIOpen's families of algorithms (GEMM, Direct, FFT, Winograd, ImplicitGEMM) the one that
    find-dbs state for it."""
    preferred: bool = False
    """Whether it is the default, ahead of the solvers that come with Skipjack."""

    def refuses(self, problem: Problem, device: Device) -> str:
        """Why this solver cannot do it; empty if it can."""
        ...

    def space(self, problem: Problem, device: Device) -> Space:
        """What may vary."""
        ...


@runtime_checkable
class BuildingSolver(Solver, Protocol):
    """A solver whose candidates are compiled ahead of running."""

    def compiler(self) -> str:
        """Name and version of what compiles; builds of another one are not used again."""
        ...

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The text to compile; pure and cheap."""
        ...

    def compile(self, source: Source) -> Blob:
        """Machine code; runs in a build worker and may crash it."""
        ...

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """The arguments of a launch, in order."""
        ...


@runtime_checkable
class SourceAware(Protocol):
    """A solver whose builds depend on more than what a candidate and a compatible device say."""

    def same_source(
        self, problem: Problem, device: Device, config: Config, digest: str, compiler: str
    ) -> bool:
        """Whether a build of this source by this compiler is what would be built now."""
        ...


@runtime_checkable
class RacingSolver(Protocol):
    """A solver that is tuned beside the first one where none was named."""

    def promise(self, problem: Problem, device: Device) -> float:
        """0: not worth a trial; below 1: worth some; above 1: likely better than the first one."""
        ...


@runtime_checkable
class LooseSolver(Protocol):
    """A solver whose arithmetic rounds more than the plain sum that tolerances are made for."""

    def slack(self, problem: Problem) -> float:
        """How many times the operation's tolerance its results may be off."""
        ...


def slack_of(solver: Solver, problem: Problem) -> float:
    """Of any solver; 1 for most."""
    return solver.slack(problem) if isinstance(solver, LooseSolver) else 1.0


@runtime_checkable
class VendorSolver(Solver, Protocol):
    """A library to beat: nothing to build, called from Python or through a C function."""

    def bind(self, problem: Problem, arrays: Arrays) -> Callable[[], object]:
        """A call on these very arrays; the output array is among them.

        A `ResultCall` where the library gives its result back in memory of its own.
        """
        ...


@runtime_checkable
class ImportingSolver(Protocol):
    """A library whose package takes seconds to import, which is done before a search begins."""

    imports: str
    """The package's name."""


@dataclass(frozen=True, slots=True)
class ResultCall:
    """The call of a library that cannot write into a given output.

    It allocates its result. Who uses such a library takes the result as it comes, so timers time
    `compute` alone; called as a whole, the result is copied into the output.
    """

    compute: Callable[[], Any]
    store: Callable[[Any], object]

    def __call__(self) -> None:
        """Compute, and let the output hold the result."""
        self.store(self.compute())


@runtime_checkable
class NativeVendorSolver(Solver, Protocol):
    """A library called through its C interface, without Python in between."""

    def thunk(self, problem: Problem) -> tuple[str, Sequence[Slot]]:
        """IR of a ``@kernel`` that makes the call, and its slots."""
        ...


@runtime_checkable
class GpuVendorSolver(Solver, Protocol):
    """A library to beat on GPUs, called from Python on tensors of PyTorch."""

    def bind_gpu(self, problem: Problem, tensors: Mapping[str, Any]) -> Callable[[], object]:
        """A call on these very tensors, which lie in the GPU's memory; outputs are among them.

        It queues work on PyTorch's current stream. A `ResultCall` where the library gives its
        result back in memory of its own.
        """
        ...


@runtime_checkable
class GpuFunctionSolver(GpuVendorSolver, Protocol):
    """One whose calls need nothing bound: who calls often asks for this once."""

    def gpu_function(self, problem: Problem) -> Callable[[Mapping[str, Any]], object] | None:
        """The same call as of `bind_gpu`, as a function of the tensors; None if there is none.

        It depends on no switch of PyTorch's but the precision of products in float32, which is set
        when it is called.
        """
        ...


@runtime_checkable
class DrivingSolver(Solver, Protocol):
    """A solver that is a program of its own: it searches, builds, checks and times by itself.

    Nothing of it is asked for, built or timed here, so that its times are not comparable with those
    of a session: it takes part in no race and no ranking of ours. Fleet jobs that name it run it.
    """

    def arguments(self, problem: Problem) -> Sequence[str]:
        """The words of the command that searches, behind the program's name."""
        ...
