"""Runs generated code on arrays fenced by guard pages."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import numpy_dtype
from skipjack.native import GuardedArray, detect, llvm, poison, target_of

Array = npt.NDArray[Any]
Runner = Callable[..., Array]


@pytest.fixture(scope="session")
def run_ir() -> Runner:
    """``run(text, dtype, inputs, output_shape, numbers=(), target=this CPU)`` gives the output.

    Arrays end at a guard page; inputs must not change.
    """
    loader = llvm.Loader()

    def run(
        text: str,
        dtype: str,
        inputs: Sequence[Array],
        output_shape: tuple[int, ...],
        numbers: Sequence[int] = (),
        target: str = "",
    ) -> Array:
        code = llvm.compile_object(text, target or target_of(detect()))
        item = numpy_dtype(dtype).itemsize
        shapes = [*(array.shape for array in inputs), output_shape]
        guarded = [GuardedArray(shape, numpy_dtype(dtype), alignment=item) for shape in shapes]
        for place, array in zip(guarded, inputs, strict=False):
            place.array[...] = array
        poison(guarded[-1].array)
        slots = [place.array.ctypes.data for place in guarded] + list(numbers)
        address = loader.load(code, "kernel")
        llvm.c_function(address, ctypes.c_void_p)((ctypes.c_int64 * len(slots))(*slots))
        loader.unload(address)
        assert all(place.intact() for place in guarded)
        for place, array in zip(guarded, inputs, strict=False):
            np.testing.assert_array_equal(place.array, array)
        return guarded[-1].array.copy()

    return run
