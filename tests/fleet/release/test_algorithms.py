"""Solvers belong to one of MIOpen's families; those of plugins say to which."""

import pytest

from skipjack.fleet.release.results.ranking_sources import family_of
from skipjack.solvers import names


@pytest.mark.parametrize(
    ("solver", "family"),
    [
        ("direct", "Direct"),
        ("depthwise", "Direct"),
        ("winograd2", "Winograd"),
        ("winograd4", "Winograd"),
        ("triton_conv_winograd", "Winograd"),
        ("im2col", "GEMM"),
        ("gemm1x1", "GEMM"),
        ("mkl", "GEMM"),
        ("cblas", "GEMM"),
        ("cublas", "GEMM"),
        ("cudnn", "Direct"),
        ("implicit_gemm", "ImplicitGEMM"),
        ("triton_conv_box", "ImplicitGEMM"),
        ("triton_conv_fold", "GEMM"),
        ("triton_conv_gather", "ImplicitGEMM"),
        ("triton_conv_matmul", "GEMM"),
        ("triton_conv_planes", "GEMM"),
        ("triton_conv_window", "ImplicitGEMM"),
        ("triton_conv_depthwise", "Direct"),
        ("onednn", "Direct"),
    ],
)
def test_the_family_of_a_solver(solver: str, family: str) -> None:
    assert solver in names()
    assert family_of(solver) == family


def test_a_solver_that_is_not_here_is_direct() -> None:
    assert family_of("of_a_plugin_that_is_not_loaded") == "Direct"
