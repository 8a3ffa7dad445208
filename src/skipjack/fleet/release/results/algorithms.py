"""Which of MIOpen's families of algorithms a solver belongs to."""

from __future__ import annotations

from skipjack.errors import SkipjackError
from skipjack.interop.miopen.find_values import FAMILIES
from skipjack.solvers import find_solver

DIRECT, GEMM, IMPLICIT_GEMM, WINOGRAD = "Direct", "GEMM", "ImplicitGEMM", "Winograd"

_FAMILY = {
    "im2col": GEMM,
    "gemm1x1": GEMM,
    "mkl": GEMM,
    "cblas": GEMM,
    "cublas": GEMM,
    "implicit_gemm": IMPLICIT_GEMM,
    "winograd2": WINOGRAD,
    "winograd4": WINOGRAD,
    "triton_conv_box": IMPLICIT_GEMM,
    "triton_conv_fold": GEMM,
    "triton_conv_gather": IMPLICIT_GEMM,
    "triton_conv_matmul": GEMM,
    "triton_conv_planes": GEMM,
    "triton_conv_window": IMPLICIT_GEMM,
    "triton_conv_winograd": WINOGRAD,
}


def family_of(solver: str) -> str:
    """The family of a solver: what it says itself in ``algorithm``, what is known, or Direct."""
    if solver in _FAMILY:
        return _FAMILY[solver]
    try:
        said = getattr(find_solver(solver), "algorithm", DIRECT)
    except SkipjackError:  # of a plugin that is not loaded here
        return DIRECT
    return said if said in FAMILIES else DIRECT
