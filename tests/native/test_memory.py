"""Guard pages and canaries see every access outside of an array."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from skipjack.native import PAGE, GuardedArray, aligned, poison


@pytest.mark.parametrize("alignment", [16, 64, 4096])
def test_an_aligned_array_starts_on_a_multiple(alignment: int) -> None:
    array = aligned((3, 5), "float32", alignment)
    assert array.ctypes.data % alignment == 0
    assert array.shape == (3, 5)
    assert array.dtype == np.float32
    array[...] = 1.0
    assert array.sum() == 15.0


@pytest.mark.parametrize("shape", [(1,), (15,), (3, 5), (PAGE,), (PAGE // 4 + 1,)])
def test_a_guarded_array_is_an_array_like_any_other(shape: tuple[int, ...]) -> None:
    guarded = GuardedArray(shape, "float32", 64)
    guarded.array[...] = 2.0
    assert guarded.array.shape == shape
    assert guarded.array.ctypes.data % 64 == 0
    assert guarded.intact()


@pytest.mark.parametrize("offset", [-PAGE, -4, -1, 60, 61, 63])
def test_a_write_around_the_array_is_seen_until_restored(offset: int) -> None:
    guarded = GuardedArray((15,), "float32", 64)
    ctypes.memset(guarded.array.ctypes.data + offset, 0, 1)
    assert not guarded.intact()
    guarded.restore()
    assert guarded.intact()


def test_poison_is_seen_in_whatever_was_not_written() -> None:
    array = np.zeros(4, np.float32)
    poison(array)
    assert np.isnan(array).all()


@pytest.mark.parametrize("access", ["ctypes.string_at(end, 1)", "ctypes.memset(end, 0, 1)"])
@pytest.mark.parametrize("beyond", [0, PAGE - 1])
def test_touching_what_lies_behind_the_end_stops_the_process(access: str, beyond: int) -> None:
    script = f"""
import ctypes
from skipjack.native import GuardedArray
guarded = GuardedArray((16,), "float32", 64)
ctypes.string_at(guarded.array.ctypes.data, 64)
end = guarded.array.ctypes.data + 64 + {beyond}
print("reached", flush=True)
{access}
print("survived", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "reached\n"
    assert done.returncode < 0
