"""A kernel's slots say how much memory it borrows, and what is in it."""

import ctypes

import numpy as np
import pytest

from skipjack.native import Slots, scratch_slot, workspace_bytes, workspace_slot


@pytest.mark.parametrize(
    ("slots", "size"),
    [
        ([], 0),
        (["a", "out", 4096, "@parallel:2"], 0),
        (["a", workspace_slot(64), 7, workspace_slot(64)], 128),
        ([scratch_slot("panel", 96), "a", scratch_slot("panel", 96)], 96),
        ([scratch_slot("panel", 96), scratch_slot("tiles", 96), workspace_slot(8)], 200),
    ],
)
def test_workspaces_add_up_and_scratch_of_one_name_counts_once(
    slots: list[str | int], size: int
) -> None:
    assert workspace_bytes(slots) == size


@pytest.mark.parametrize("is_poisoned", [False, True])
@pytest.mark.parametrize("slot", [workspace_slot(4096), scratch_slot("panel", 4096)])
def test_memory_that_is_lent_holds_zeros_or_nan_but_nothing_denormal(
    slot: str, is_poisoned: bool
) -> None:
    for size in (4096, 8192, 12288):
        np.full(size, 1, "uint8")  # the next allocation of this size may get it
        slots = Slots([slot], {}, is_poisoned=is_poisoned)
        lent = np.ctypeslib.as_array((ctypes.c_float * 1024).from_address(slots.values[0]))
        assert np.isnan(lent).all() if is_poisoned else not lent.any()
