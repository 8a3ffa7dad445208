"""The solvers that come with Skipjack: a table of what each supports, without loading it.

Solvers are many modules of code generators, and a process uses a few of them. A line of the table
may declare more than its solver accepts, never less.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from enum import Enum

from skipjack.core import Device, NestOperation, Problem, ProgramOperation
from skipjack.operations import (
    BatchNorm,
    Convolution,
    Elementwise,
    Matmul,
    Reduce,
    RowOperation,
    get,
)
from skipjack.solvers.solver import Solver


class Use(Enum):
    """The role of a solver."""

    BUILT = "built"
    """Its candidates are compiled and tuned."""
    COMPARED = "compared"
    """A library that tuned kernels are timed against."""
    NAMED = "named"
    """Used only when it is requested by name."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    name: str
    place: str
    """``module:attribute``: the solver's class, or the solver itself."""
    operations: tuple[type, ...]
    use: Use = Use.BUILT
    kinds: tuple[str, ...] = ("cpu",)

    def builds_for(self, device: Device) -> bool:
        """Whether it builds kernels for devices of this kind."""
        return self.use is Use.BUILT and device.kind in self.kinds

    def may_do(self, problem: Problem, device: Device) -> bool:
        """Whether the solver may accept a problem, so that it has to be loaded."""
        if device.kind not in self.kinds:
            return False
        try:
            return isinstance(get(problem.operation), self.operations)
        except Exception:
            return True  # the operation raises; the solver reports it


def is_built_in(solver: Solver) -> bool:
    """Whether a solver comes from this table; plug-ins cannot add to it."""
    ours = type(solver).__module__.startswith("skipjack.")
    return ours and any(one.name == solver.name for one in BUILT_IN)


@functools.cache
def load(built_in: BuiltIn) -> Solver:
    """The solver; it is created once."""
    module, _, attribute = built_in.place.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    solver: Solver = found() if isinstance(found, type) else found
    return solver


_ANY = (object,)
_PRODUCT, _CONVOLUTION = (Matmul,), (Convolution,)
_CUDA, _GPUS = ("cuda",), ("cuda", "hip")

_LOOPS = (
    BuiltIn("nest", "skipjack.solvers.cpu.nest_code.solver:NestSolver", (NestOperation,)),
    BuiltIn("microkernel", "skipjack.solvers.cpu.gemm.microkernel:MicrokernelSolver", _PRODUCT),
    BuiltIn("packed", "skipjack.solvers.cpu.gemm.solver:PackedSolver", _PRODUCT),
    BuiltIn("thin", "skipjack.solvers.cpu.gemm.thin_solver:ThinSolver", _PRODUCT),
    BuiltIn("rows", "skipjack.solvers.cpu.rows.solver:RowsSolver", (ProgramOperation,)),
)
_CONVOLUTIONS = tuple(
    BuiltIn(name, place, _CONVOLUTION)
    for name, place in (
        ("direct", "skipjack.solvers.cpu.conv.direct.solver:DirectSolver"),
        ("depthwise", "skipjack.solvers.cpu.conv.depthwise.solver:DepthwiseSolver"),
        ("gemm1x1", "skipjack.solvers.cpu.conv.explicit_gemm.gemm1x1:Gemm1x1Solver"),
        ("im2col", "skipjack.solvers.cpu.conv.explicit_gemm.im2col:Im2colSolver"),
        ("implicit_gemm", "skipjack.solvers.cpu.conv.implicit_gemm.solver:ImplicitGemmSolver"),
        ("winograd2", "skipjack.solvers.cpu.conv.winograd.solver:F2_SOLVER"),
        ("winograd4", "skipjack.solvers.cpu.conv.winograd.solver:F4_SOLVER"),
    )
)
_SCHEDULED = (
    BuiltIn(
        "direct_nest",
        "skipjack.solvers.cpu.conv.direct.solver:DirectNestSolver",
        _CONVOLUTION,
        Use.NAMED,
    ),
)
_CPU_LIBRARIES = (
    BuiltIn("numpy", "skipjack.solvers.vendor.cpu:NumpySolver", _ANY, Use.COMPARED),
    BuiltIn("mkl", "skipjack.solvers.vendor.cpu:MklSolver", _PRODUCT, Use.COMPARED),
    BuiltIn("cblas", "skipjack.solvers.vendor.cpu:OpenBlasSolver", _PRODUCT, Use.NAMED),
    BuiltIn("tvm", "skipjack.solvers.vendor.tvm.solver:TvmSolver", _PRODUCT, Use.NAMED),
    BuiltIn(
        "onednn",
        "skipjack.solvers.vendor.cpu:TorchConvolutionSolver",
        _CONVOLUTION,
        Use.COMPARED,
    ),
)
_GPU = tuple(
    BuiltIn(name, place, operations, kinds=kinds)
    for name, place, operations, kinds in (
        (
            "triton_matmul",
            "skipjack.solvers.gpu.gemm.tma:DescriptorMatmul",
            _PRODUCT,
            _CUDA,
        ),
        (
            "triton_addresses",
            "skipjack.solvers.gpu.gemm.pointers:AddressMatmul",
            _PRODUCT,
            _GPUS,
        ),
        ("triton_thin", "skipjack.solvers.gpu.gemm.pointers:ThinMatmul", _PRODUCT, _GPUS),
        ("triton_conv_box", "skipjack.solvers.gpu.conv.tma:TmaConvolution", _CONVOLUTION, _CUDA),
        (
            "triton_conv_planes",
            "skipjack.solvers.gpu.conv.nchw_pointwise:NchwPointwiseConvolution",
            _CONVOLUTION,
            _CUDA,
        ),
        (
            "triton_conv_matmul",
            "skipjack.solvers.gpu.conv.pointwise:PointwiseConvolution",
            _CONVOLUTION,
            _GPUS,
        ),
        (
            "triton_conv_window",
            "skipjack.solvers.gpu.conv.few_channels:FewChannelConvolution",
            _CONVOLUTION,
            _CUDA,
        ),
        (
            "triton_conv_fold",
            "skipjack.solvers.gpu.conv.col2im:Col2imConvolution",
            _CONVOLUTION,
            _CUDA,
        ),
        (
            "triton_conv_depthwise",
            "skipjack.solvers.gpu.conv.depthwise:DepthwiseConvolution",
            _CONVOLUTION,
            _GPUS,
        ),
        (
            "triton_conv_gather",
            "skipjack.solvers.gpu.conv.gather:GatherConvolution",
            _CONVOLUTION,
            _GPUS,
        ),
        (
            "triton_conv_winograd",
            "skipjack.solvers.gpu.conv.winograd:WinogradConvolution",
            _CONVOLUTION,
            _GPUS,
        ),
        (
            "triton_elementwise",
            "skipjack.solvers.gpu.vector.elementwise:TritonElementwise",
            (Elementwise,),
            _GPUS,
        ),
        ("triton_reduce", "skipjack.solvers.gpu.vector.reduce:TritonReduce", (Reduce,), _GPUS),
        (
            "triton_rows",
            "skipjack.solvers.gpu.vector.normalization:TritonRows",
            (RowOperation,),
            _GPUS,
        ),
        (
            "triton_layernorm_backward",
            "skipjack.solvers.gpu.vector.normalization:TritonLayerNormBackward",
            (RowOperation,),
            _GPUS,
        ),
        (
            "triton_batchnorm",
            "skipjack.solvers.gpu.vector.batchnorm:TritonBatchNorm",
            (BatchNorm,),
            _GPUS,
        ),
    )
)
_VECTORS = (Elementwise, Reduce, RowOperation, BatchNorm)
_GPU_LIBRARIES = tuple(
    BuiltIn(name, place, operations, Use.COMPARED, _GPUS)
    for name, place, operations in (
        ("cublas", "skipjack.solvers.vendor.gpu:CublasSolver", _PRODUCT),
        ("cudnn", "skipjack.solvers.vendor.gpu:CudnnSolver", _CONVOLUTION),
        ("aten", "skipjack.solvers.vendor.gpu:AtenSolver", _VECTORS),
    )
)
_MIOPEN = BuiltIn(
    "miopen", "skipjack.solvers.miopen.solver:MiopenSolver", _CONVOLUTION, Use.NAMED, ("hip",)
)

BUILT_IN = (
    *_LOOPS,
    *_CONVOLUTIONS,
    *_SCHEDULED,
    *_CPU_LIBRARIES,
    *_GPU,
    *_GPU_LIBRARIES,
    _MIOPEN,
)
"""For each operation, the preferred solver comes first."""
