"""TVM's kernels are made in a process of its own Python, and called here without TVM."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from skipjack.errors import SkipjackError, UsageError
from skipjack.native import aligned, detect, llvm, target_of
from skipjack.operations import parse
from skipjack.solvers import refusal
from skipjack.solvers.vendor.tvm import (
    KERNELS_VARIABLE,
    Metaschedule,
    TuningPlan,
    TvmSolver,
    find_python,
    read_record,
)
from skipjack.solvers.vendor.tvm.solver import call_text

PROBLEM = parse("matmul:6x10x14")
STAND_IN = """
import json, pathlib, sys
asked = dict(zip(sys.argv[1::2], sys.argv[2::2]))
for line in sys.stdin:
    name = line.strip()
    if name == "2_2_2":
        print("out of memory", file=sys.stderr)
        sys.exit(3)
    if name == "3_3_3":
        import time
        time.sleep(600)
    folder = pathlib.Path(asked["--folder"], name)
    folder.mkdir(parents=True, exist_ok=True)
    meta = {"format": 1, "tvm": "0.1", "trials": int(asked["--trials"])}
    if name == "4_4_4":
        meta["error"] = "RuntimeError: no valid trial"
    (folder / "meta.json").write_text(json.dumps(meta))
    print(name, flush=True)
"""
"""Answers as the real script does; it makes no kernels."""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "stand_in.py"
    path.write_text(STAND_IN)
    return path


def plan(tmp_path: Path, trials: int = 8) -> TuningPlan:
    return TuningPlan(Path(sys.executable), tmp_path / "kernels", trials, core=0)


def test_products_are_tuned_one_after_the_other_and_kept(tmp_path: Path, script: Path) -> None:
    with Metaschedule(plan(tmp_path), script) as tvm:
        for key in ("matmul:6x10x14", "matmul:8x8x8"):
            record = tvm.tuned(parse(key))
            assert not isinstance(record, str)
            assert record.given == "MetaSchedule of TVM 0.1 was given 8 trials"
    missing = tmp_path / "gone.py"
    with Metaschedule(plan(tmp_path), missing) as tvm:
        assert tvm.known(PROBLEM) and not isinstance(tvm.tuned(PROBLEM), str)
    with Metaschedule(plan(tmp_path, trials=9), missing) as tvm:
        assert tvm.known(PROBLEM) is None


def test_what_tvm_cannot_tune_is_told_and_the_next_is_tuned(tmp_path: Path, script: Path) -> None:
    with Metaschedule(plan(tmp_path), script) as tvm:
        failed = tvm.tuned(parse("matmul:4x4x4"))
        assert not isinstance(failed, str) and failed.error == "RuntimeError: no valid trial"
        died = tvm.tuned(parse("matmul:2x2x2"))
        assert died == "TVM's process ended with exit code 3: out of memory"
        assert not isinstance(tvm.tuned(PROBLEM), str)


def test_an_interrupt_ends_the_process(tmp_path: Path, script: Path) -> None:
    with Metaschedule(plan(tmp_path), script) as tvm:
        began = time.monotonic()
        said = tvm.tuned(parse("matmul:3x3x3"), lambda: True)
        assert said == "interrupted while TVM tuned it"
        assert time.monotonic() - began < 300


def test_a_python_without_tvm_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="absent is not a Python with TVM; install it there: pip"):
        find_python(tmp_path / "absent")


def test_the_solver_says_what_it_has_no_kernel_for(
    tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KERNELS_VARIABLE, str(tmp_path / "kernels"))
    assert refusal(TvmSolver(), PROBLEM, detect()) == "TVM has not tuned it"
    assert "f32" in refusal(TvmSolver(), parse("matmul:6x10x14:f64"), detect())
    assert "one thread" in refusal(TvmSolver(), PROBLEM, detect(2))
    assert "plain matmul" in refusal(TvmSolver(), parse("sum:6x10"), detect())
    with Metaschedule(plan(tmp_path), script) as tvm:
        tvm.tuned(parse("matmul:4x4x4"))
        tvm.tuned(PROBLEM)
    failed = refusal(TvmSolver(), parse("matmul:4x4x4"), detect())
    assert failed == "TVM failed on it: RuntimeError: no valid trial"
    with pytest.raises(SkipjackError, match=r"cannot be loaded: .*No such file"):
        TvmSolver().thunk(PROBLEM)
    (tmp_path / "kernels" / "6_10_14" / "kernel.so").write_bytes(b"other bytes")
    with pytest.raises(SkipjackError, match=r"does not match its digest in meta\.json"):
        TvmSolver().thunk(PROBLEM)


class Tensor(ctypes.Structure):
    """DLPack's ``DLTensor``, its nested device and data type written out flat."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Any(ctypes.Structure):
    """TVM's ``TVMFFIAny`` holding a tensor's pointer."""

    _fields_ = (
        ("type_index", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("tensor", ctypes.POINTER(Tensor)),
    )


def test_a_kernel_is_called_by_the_convention_of_tvm() -> None:
    seen = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Any), ctypes.c_int32, ctypes.c_void_p
    )
    def kernel(own: int | None, given: object, count: int, result: int) -> int:
        arrays = []
        for slot in given[:count]:
            tensor = slot.tensor.contents
            seen.append((slot.type_index, *tensor.device, *tensor.dtype, *tensor.strides[:2]))
            rows, columns = tensor.shape[: tensor.ndim]
            flat = (ctypes.c_float * (rows * columns)).from_address(tensor.data)
            arrays.append(np.frombuffer(flat, np.float32).reshape(rows, columns))
        np.matmul(arrays[0], arrays[1], out=arrays[2])
        return 0

    rng = np.random.default_rng(0)
    a, b, out = (aligned(shape, "float32") for shape in ((6, 14), (14, 10), (6, 10)))
    a[...], b[...] = rng.random(a.shape), rng.random(b.shape)
    loader = llvm.Loader()
    code = llvm.compile_object(call_text(PROBLEM), target_of(detect()))
    call = llvm.c_function(loader.load(code, "kernel"), ctypes.c_void_p)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    for shift in (64, 80):
        out.fill(np.nan)
        slots = (ctypes.c_int64 * 5)(address, shift, *(x.ctypes.data for x in (a, b, out)))
        call(ctypes.addressof(slots))
        np.testing.assert_allclose(out, a @ b, rtol=1e-5)
    assert seen[:3] == [(7, 1, 0, 2, 32, 1, 0, step, 1) for step in (14, 10, 10)]


@pytest.mark.long
def test_the_real_tvm_makes_a_kernel_that_is_called_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = os.environ.get("SKIPJACK_TVM_PYTHON")
    python = find_python(Path(named) if named else None)
    if python is None:
        pytest.skip("TVM is not installed; make tvm does so")
    place = TuningPlan(python, tmp_path / "kernels", 2, min(os.sched_getaffinity(0)))
    with Metaschedule(place) as tvm:
        record = tvm.tuned(PROBLEM)
    assert not isinstance(record, str), record
    assert not record.error
    kernel = (record.folder / "kernel.so").read_bytes()
    assert record.meta["sha256"] == hashlib.sha256(kernel).hexdigest()
    assert json.loads((record.folder / "meta.json").read_text())["trials"] == 2
    assert read_record(place.folder, PROBLEM) is not None
    monkeypatch.setenv(KERNELS_VARIABLE, str(place.folder))
    text, (function, shift, *names) = TvmSolver().thunk(PROBLEM)
    a, b, out = (aligned(shape, "float32") for shape in ((6, 14), (14, 10), (6, 10)))
    a[...], b[...] = 0.5, 2.0
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, target_of(detect())), "kernel")
    slots = (ctypes.c_int64 * 5)(function, shift, *(x.ctypes.data for x in (a, b, out)))
    llvm.c_function(address, ctypes.c_void_p)(ctypes.addressof(slots))
    assert names == ["a", "b", "out"]
    np.testing.assert_array_equal(out, 14.0)
