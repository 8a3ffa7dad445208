"""The solvers that build for GPUs, the preferred one of each operation first."""

from __future__ import annotations

from skipjack.solvers.gpu.conv_box import BoxConvolution
from skipjack.solvers.gpu.conv_depthwise import DepthwiseConvolution
from skipjack.solvers.gpu.conv_fold import FoldConvolution
from skipjack.solvers.gpu.conv_gather import GatherConvolution
from skipjack.solvers.gpu.conv_planes import PlanesConvolution
from skipjack.solvers.gpu.conv_pointwise import PointwiseConvolution
from skipjack.solvers.gpu.conv_window import WindowConvolution
from skipjack.solvers.gpu.conv_winograd import WinogradConvolution
from skipjack.solvers.gpu.matmul_addresses import AddressMatmul, ThinMatmul
from skipjack.solvers.gpu.matmul_descriptors import DescriptorMatmul
from skipjack.solvers.gpu.triton_batchnorm import TritonBatchNorm
from skipjack.solvers.gpu.triton_elementwise import TritonElementwise
from skipjack.solvers.gpu.triton_reduce import TritonReduce
from skipjack.solvers.gpu.triton_rows import TritonRows
from skipjack.solvers.solver import Solver

GPU_SOLVERS: tuple[Solver, ...] = (
    DescriptorMatmul(),
    AddressMatmul(),
    ThinMatmul(),
    BoxConvolution(),
    PlanesConvolution(),
    PointwiseConvolution(),
    WindowConvolution(),
    FoldConvolution(),
    DepthwiseConvolution(),
    GatherConvolution(),
    WinogradConvolution(),
    TritonElementwise(),
    TritonReduce(),
    TritonRows(),
    TritonBatchNorm(),
)
