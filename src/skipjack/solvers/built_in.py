"""The solvers that come with Skipjack: a table that says what each is for, without loading it.

Solvers are some two hundred modules of code generators, and a process uses a few of them. What a
line of the table declares may be more than its solver accepts, never less.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from enum import Enum

from skipjack.core.device import Device
from skipjack.core.operation import NestOperation, ProgramOperation
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.batchnorm import BatchNorm
from skipjack.operations.convolution import Convolution
from skipjack.operations.elementwise import Elementwise
from skipjack.operations.matmul import Matmul
from skipjack.operations.normalization import RowOperation
from skipjack.operations.reduce import Reduce
from skipjack.solvers.solver import Solver


class Use(Enum):
    """What a solver is there for."""

    BUILT = "built"
    """Its candidates are compiled and tuned."""
    COMPARED = "compared"
    """A library that tuned kernels are timed against."""
    NAMED = "named"
    """Used where it is asked for by name."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """What is known of a solver before it is loaded."""

    name: str
    place: str
    """``module:attribute`` below this package: the solver's class, or the solver."""
    operations: tuple[type, ...]
    use: Use = Use.BUILT
    kinds: tuple[str, ...] = ("cpu",)

    def builds_for(self, device: Device) -> bool:
        """Whether it is one that builds for devices of this kind."""
        return self.use is Use.BUILT and device.kind in self.kinds

    def may_do(self, problem: Problem, device: Device) -> bool:
        """Whether it is worth loading for a problem."""
        if device.kind not in self.kinds:
            return False
        try:
            return isinstance(get(problem.operation), self.operations)
        except Exception:
            return True  # an operation that raises: the solver is asked, and refuses for that


def is_built_in(solver: Solver) -> bool:
    """Whether a solver is of the table, where nobody else's can be."""
    ours = type(solver).__module__.startswith("skipjack.")
    return ours and any(one.name == solver.name for one in BUILT_IN)


@functools.cache
def load(built_in: BuiltIn) -> Solver:
    """The solver itself, made once."""
    module, _, attribute = built_in.place.partition(":")
    found = getattr(importlib.import_module(f"skipjack.solvers.{module}"), attribute)
    solver: Solver = found() if isinstance(found, type) else found
    return solver


_ANY = (object,)
_PRODUCT, _CONVOLUTION = (Matmul,), (Convolution,)
_CUDA, _GPUS = ("cuda",), ("cuda", "hip")

_LOOPS = (
    BuiltIn("nest", "loops.nest_solver:NestSolver", (NestOperation,)),
    BuiltIn("microkernel", "loops.microkernel_solver:MicrokernelSolver", _PRODUCT),
    BuiltIn("packed", "loops.packed_solver:PackedSolver", _PRODUCT),
    BuiltIn("thin", "cpu.thin:ThinSolver", _PRODUCT),
    BuiltIn("rows", "loops.rows_solver:RowsSolver", (ProgramOperation,)),
)
_CONVOLUTIONS = tuple(
    BuiltIn(name, f"convolution.{place}", _CONVOLUTION)
    for name, place in (
        ("direct", "direct:DirectSolver"),
        ("depthwise", "depthwise:DepthwiseSolver"),
        ("gemm1x1", "gemm1x1:Gemm1x1Solver"),
        ("im2col", "im2col:Im2colSolver"),
        ("implicit_gemm", "implicit_gemm:ImplicitGemmSolver"),
        ("winograd2", "winograd_solver:F2_SOLVER"),
        ("winograd4", "winograd_solver:F4_SOLVER"),
    )
)
_SCHEDULED = (
    BuiltIn("direct_nest", "convolution.direct:DirectNestSolver", _CONVOLUTION, Use.NAMED),
)
_CPU_LIBRARIES = (
    BuiltIn("numpy", "vendor.numpy_solver:NumpySolver", _ANY, Use.COMPARED),
    BuiltIn("mkl", "vendor.blas:MklSolver", _PRODUCT, Use.COMPARED),
    BuiltIn("cblas", "vendor.blas:OpenBlasSolver", _PRODUCT, Use.NAMED),
    BuiltIn("tvm", "vendor.tvm.solver:TvmSolver", _PRODUCT, Use.NAMED),
    BuiltIn("onednn", "vendor.torch_solver:TorchConvolutionSolver", _CONVOLUTION, Use.COMPARED),
)
_GPU = tuple(
    BuiltIn(name, f"gpu.{place}", operations, kinds=kinds)
    for name, place, operations, kinds in (
        ("triton_matmul", "matmul_descriptors:DescriptorMatmul", _PRODUCT, _CUDA),
        ("triton_addresses", "matmul_addresses:AddressMatmul", _PRODUCT, _GPUS),
        ("triton_thin", "matmul_addresses:ThinMatmul", _PRODUCT, _GPUS),
        ("triton_conv_box", "conv_box:BoxConvolution", _CONVOLUTION, _CUDA),
        ("triton_conv_planes", "conv_planes:PlanesConvolution", _CONVOLUTION, _CUDA),
        ("triton_conv_matmul", "conv_pointwise:PointwiseConvolution", _CONVOLUTION, _GPUS),
        ("triton_conv_window", "conv_window:WindowConvolution", _CONVOLUTION, _CUDA),
        ("triton_conv_fold", "conv_fold:FoldConvolution", _CONVOLUTION, _CUDA),
        ("triton_conv_depthwise", "conv_depthwise:DepthwiseConvolution", _CONVOLUTION, _GPUS),
        ("triton_conv_gather", "conv_gather:GatherConvolution", _CONVOLUTION, _GPUS),
        ("triton_conv_winograd", "conv_winograd:WinogradConvolution", _CONVOLUTION, _GPUS),
        ("triton_elementwise", "triton_elementwise:TritonElementwise", (Elementwise,), _GPUS),
        ("triton_reduce", "triton_reduce:TritonReduce", (Reduce,), _GPUS),
        ("triton_rows", "triton_rows:TritonRows", (RowOperation,), _GPUS),
        (
            "triton_layernorm_backward",
            "gradients.layernorm:TritonLayerNormBackward",
            (RowOperation,),
            _GPUS,
        ),
        ("triton_batchnorm", "triton_batchnorm:TritonBatchNorm", (BatchNorm,), _GPUS),
    )
)
_VECTORS = (Elementwise, Reduce, RowOperation, BatchNorm)
_GPU_LIBRARIES = tuple(
    BuiltIn(name, f"vendor.torch_gpu:{place}", operations, Use.COMPARED, _GPUS)
    for name, place, operations in (
        ("cublas", "CublasSolver", _PRODUCT),
        ("cudnn", "CudnnSolver", _CONVOLUTION),
        ("aten", "AtenSolver", _VECTORS),
    )
)
_MIOPEN = BuiltIn("miopen", "miopen.solver:MiopenSolver", _CONVOLUTION, Use.NAMED, ("hip",))

BUILT_IN = (
    *_LOOPS,
    *_CONVOLUTIONS,
    *_SCHEDULED,
    *_CPU_LIBRARIES,
    *_GPU,
    *_GPU_LIBRARIES,
    _MIOPEN,
)
"""The preferred one of each operation first."""
