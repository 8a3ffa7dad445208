"""Solvers belong to one of MIOpen's families; those of plugins say to which."""

from types import SimpleNamespace

import pytest

from skipjack.fleet.release.results import algorithms
from skipjack.fleet.release.results.algorithms import family_of
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
        ("implicit_gemm", "ImplicitGEMM"),
        ("onednn", "Direct"),
    ],
)
def test_the_family_of_a_solver(solver: str, family: str) -> None:
    assert solver in names()
    assert family_of(solver) == family


def test_a_plugin_says_its_family(monkeypatch: pytest.MonkeyPatch) -> None:
    said = SimpleNamespace(algorithm="FFT")
    monkeypatch.setattr(algorithms, "find_solver", lambda name: said)
    assert family_of("mine") == "FFT"
    said.algorithm = "Magic"
    assert family_of("mine") == "Direct"


def test_a_solver_that_is_not_here_is_direct() -> None:
    assert family_of("of_a_plugin_that_is_not_loaded") == "Direct"


def test_every_name_in_the_table_is_a_solver() -> None:
    assert algorithms._FAMILY.keys() <= set(names())
