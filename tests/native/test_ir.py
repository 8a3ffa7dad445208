"""The writer of LLVM IR: constants, masks, loops."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.native import IRWriter, VectorType, constant_mask, detect, function, llvm, target_of

LOADER = llvm.Loader()


def run(writer: IRWriter, out: npt.NDArray[Any], number: int = 0) -> None:
    """Call a body that writes to ``%out`` and may use ``%number``."""
    head = IRWriter()
    head.lines = [
        "  %out = load ptr, ptr %slots, align 8",
        "  %second = getelementptr i8, ptr %slots, i64 8",
        "  %number = load i64, ptr %second, align 8",
        *writer.lines,
        "  ret void",
    ]
    text = "\n".join([*writer.declarations, function(head, "void @kernel(ptr %slots)", 256)])
    address = LOADER.load(llvm.compile_object(text, target_of(detect())), "kernel")
    slots = (ctypes.c_int64 * 2)(out.ctypes.data, number)
    llvm.c_function(address, ctypes.c_void_p)(slots)
    LOADER.unload(address)


@settings(derandomize=True, deadline=None, max_examples=40)
@given(st.floats(width=32), st.sampled_from([("f32", np.float32), ("f64", np.float64)]))
def test_a_constant_keeps_all_its_bits(value: float, kind: tuple[str, type]) -> None:
    out: npt.NDArray[Any] = np.full(4, 7.0, kind[1])
    w, vector = IRWriter(), VectorType(kind[0], 4)
    w.store(vector, vector.constant(value), "%out")
    run(w, out)
    np.testing.assert_array_equal(out, np.full(4, value, kind[1]))
    assert (np.signbit(out) == np.signbit(value)).all()


def test_a_constant_of_f32_is_rounded_to_f32() -> None:
    out = np.zeros(1, np.float32)
    w, scalar = IRWriter(), VectorType("f32", 1)
    w.store(scalar, scalar.constant(0.1), "%out")
    run(w, out)
    assert out[0] == np.float32(0.1)


@pytest.mark.parametrize("active", range(1, 5))
def test_a_masked_store_leaves_the_other_lanes_alone(active: int) -> None:
    out = np.full(4, 7.0, np.float32)
    w, vector = IRWriter(), VectorType("f32", 4)
    w.store(vector, vector.constant(1.0), "%out", constant_mask(4, active))
    run(w, out)
    assert list(out) == [1.0] * active + [7.0] * (4 - active)


def test_a_full_mask_is_none() -> None:
    assert constant_mask(4, 4) is None
    assert constant_mask(2, 1) == "<i1 true, i1 false>"


@pytest.mark.parametrize("known", [True, False], ids=["known now", "known at run time"])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_a_loop_hands_its_values_on(rounds: int, known: bool) -> None:
    out = np.zeros(1, np.int64)
    w = IRWriter()
    count = rounds if known else "%number"
    total = w.loop(count, [("i64", "10")], lambda i, s: [w.value(f"add i64 {s[0]}, 3")])
    w.emit(f"store i64 {total[0]}, ptr %out")
    run(w, out, rounds)
    assert out[0] == 10 + 3 * rounds


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_a_loop_that_may_be_skipped_hands_on_its_start(rounds: int) -> None:
    out = np.zeros(1, np.int64)
    w = IRWriter()
    total = w.loop_or_skip(
        "%number", [("i64", "10")], lambda i, s: [w.value(f"add i64 {s[0]}, {i}")]
    )
    w.emit(f"store i64 {total[0]}, ptr %out")
    run(w, out, rounds)
    assert out[0] == 10 + sum(range(rounds))


@pytest.mark.parametrize("number", [0, 1])
def test_a_condition_guards_its_body(number: int) -> None:
    out = np.zeros(1, np.int64)
    w = IRWriter()
    w.when(w.value("icmp ne i64 %number, 0"), lambda: w.emit("store i64 5, ptr %out"))
    run(w, out, number)
    assert out[0] == 5 * number
