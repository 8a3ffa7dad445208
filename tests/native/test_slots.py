"""A kernel's slots say how much memory it borrows."""

import pytest

from skipjack.native.slots import scratch_slot, workspace_bytes, workspace_slot


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
