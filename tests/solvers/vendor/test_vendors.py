"""The libraries to beat compute the problem, on the arrays that they are given."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipjack import operations
from skipjack.core import Arrays, Device, Problem, plugin_registration
from skipjack.errors import SkipjackError
from skipjack.execute import Checker
from skipjack.native import detect, llvm, target_of
from skipjack.operations import get, names, parse
from skipjack.report import doctor
from skipjack.solvers.vendor import MklSolver, cpu
from skipjack.solvers.vendor.cpu import NumpySolver, OpenBlasSolver
from skipjack.tuning.study import compared

SHAPES = {
    "matmul": "7x19x11/ta=1/beta=2/bias=1/act=relu",
    "bmm": "3x7x19x11",
    "sum": "13x17/axis=0",
    "max": "5x7x3/axis=0,2",
    "mean": "37",
    "batchnorm": "n3c5h4w4",
}


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", [name for name in names() if not name.startswith("conv")])
def test_numpy_writes_the_right_result_into_the_output(name: str, dtype: str) -> None:
    problem = parse(f"{name}:{SHAPES.get(name, '3x7')}:{dtype}")
    checker = Checker(problem)
    call = NumpySolver().bind(problem, checker.arrays)
    for _ in range(2):
        checker.prepare()
        call()
        assert checker.verdict().right


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("solver", [OpenBlasSolver(), MklSolver()], ids=lambda solver: solver.name)
def test_a_blas_is_called_without_python_in_between(
    solver: OpenBlasSolver | MklSolver, dtype: str
) -> None:
    problem = parse(f"matmul:7x19x11:{dtype}")
    if solver.refuses(problem, detect()):
        pytest.skip(f"{solver.name} is not installed")
    checker = Checker(problem)
    text, slots = solver.thunk(problem)
    values = [checker.arrays[s].ctypes.data if isinstance(s, str) else s for s in slots]
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, target_of(detect())), "kernel")
    checker.prepare()
    llvm.c_function(address, ctypes.c_void_p)((ctypes.c_int64 * len(values))(*values))
    assert checker.verdict().right


@pytest.mark.parametrize("solver", [NumpySolver(), OpenBlasSolver(), MklSolver()])
def test_a_library_has_nothing_to_vary_and_stays_on_the_cpu(
    solver: NumpySolver | OpenBlasSolver | MklSolver,
) -> None:
    problem = parse("matmul:8x8x8")
    assert len(list(solver.space(problem, detect()).enumerate())) == 1
    assert solver.refuses(problem, Device("gpu", "sm_90", 132))


def test_a_blas_does_matmul_alone() -> None:
    assert OpenBlasSolver().refuses(parse("add:4"), detect())


def test_numpy_repeats_its_own_reference() -> None:
    problem = parse("relu:9")
    arrays = {"x": np.linspace(-1, 1, 9, dtype=np.float32), "out": np.zeros(9, np.float32)}
    NumpySolver().bind(problem, arrays)()
    np.testing.assert_array_equal(arrays["out"], get("relu").reference(problem, arrays))


def test_only_the_first_call_of_a_plug_ins_reference_is_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    like = get("relu")

    class Own:
        name, example = "own_relu", "own_relu:8"

        def __getattr__(self, asked: str) -> Any:
            if asked == "numpy_call":
                raise AttributeError(asked)
            return getattr(like, asked)

        def reference(self, problem: Problem, arrays: Arrays) -> Any:
            return np.maximum(arrays["x"], 0)

    monkeypatch.setattr(operations.registry, "_known", {**operations.registry._known})
    operations.register(Own())  # type: ignore[arg-type]
    arrays = {"x": np.linspace(-1, 1, 9, dtype=np.float32), "out": np.zeros(9, np.float32)}
    call = NumpySolver().bind(parse("own_relu:9"), arrays)
    looked: list[object] = []
    monkeypatch.setattr(
        plugin_registration, "matches_type", lambda value, _: looked.append(value) or True
    )
    call()
    assert looked, "the first call is checked"
    looked.clear()
    arrays["x"] += 1
    call()
    np.testing.assert_array_equal(arrays["out"], np.maximum(arrays["x"], 0))
    assert not looked, "checks take longer than NumPy does for so little"


def test_whether_a_library_is_there_is_asked_without_loading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MKL ends a process that has too little memory for it; only a run worker may end."""
    problem, device = parse("matmul:8x8x8"), detect()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(cpu, "_of_package", lambda *_: ())
    assert MklSolver().refuses(problem, device) == "mkl is not installed"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmkl_rt.so.3").write_bytes(b"not a library")
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", lambda path: pytest.fail(f"{path} was loaded"))
        assert MklSolver().refuses(problem, device) == ""
    with pytest.raises(SkipjackError, match="mkl is installed but cannot be loaded"):
        MklSolver().thunk(problem)


def test_mkl_is_found_where_its_package_was_installed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pip install --target``, or a directory on PYTHONPATH: not beside this Python."""
    site = tmp_path / "site"
    (site / "mkl-2099.1.dist-info").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libmkl_rt.so.9").touch()
    files = ["../lib/libmkl_rt.so.9,,", "../lib/libmkl_core.so.9,,", "../lib/libmkl_rt.so.8,,"]
    (site / "mkl-2099.1.dist-info" / "RECORD").write_text("\n".join(files))
    (site / "mkl-2099.1.dist-info" / "METADATA").write_text("Name: mkl\nVersion: 2099.1\n")
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "elsewhere"))
    cpu._of_package.cache_clear()
    try:
        assert MklSolver().files() == [tmp_path / "lib" / "libmkl_rt.so.9"]
        assert [f.text for f in doctor._parts() if f.part == "mkl"] == ["2099.1"]
        (tmp_path / "lib" / "libmkl_rt.so.9").unlink()
        cpu._of_package.cache_clear()
        assert MklSolver().refuses(parse("matmul:8x8x8"), detect()) == "mkl is not installed"
        (finding,) = (f for f in doctor._parts() if f.part == "mkl")
        assert finding.text.startswith("not installed")
    finally:
        cpu._of_package.cache_clear()


def test_openblas_without_numpy_takes_no_part_in_verdicts() -> None:
    assert compared("numpy") and compared("mkl") and not compared("cblas")
