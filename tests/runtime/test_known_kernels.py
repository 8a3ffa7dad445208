"""What a program may ask for: all that names one problem on a command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import skipjack
from skipjack.errors import ProblemError, SkipjackError
from skipjack.operations import parse
from skipjack.runtime.local_kernels import requested_problem

SHAPE = "-n 1 -c 8 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1"
KEY = "conv2d:n1c8h14w14k8y3x3p1q1:f32:NCHW:fwd"
FIND_DB = "8-14-14-3x3-8-14-14-1-1x1-1x1-1x1-0-NCHW-FP32-F"


@pytest.mark.parametrize(
    "text", [KEY, f"conv {SHAPE} -F 1", f"MIOpenDriver conv {SHAPE} -F 1", FIND_DB]
)
def test_keys_commands_and_lines_of_a_find_db_name_a_problem(text: str) -> None:
    assert requested_problem(text) == parse(KEY)


def test_what_a_command_leaves_open_is_filled_in() -> None:
    asked = requested_problem(f"convbfp16 {SHAPE}", layout="nhwc", direction="wrw")
    assert (asked.dtype, asked.layout, asked.direction) == ("bf16", "NHWC", "wrw")


def test_a_command_that_means_several_problems_names_them() -> None:
    with pytest.raises(ProblemError, match=f"means 3 problems; give one.*{KEY}, "):
        requested_problem(f"conv {SHAPE}")


def test_a_command_without_a_kernel_here_says_why() -> None:
    with pytest.raises(ProblemError, match="not applicable: conv2d:"):
        requested_problem("convint8 -n 1 -c 8 -H 14 -W 14 -k 8 -y 3 -x 3 -F 1")


def test_tune_find_and_lookup_take_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))
    command = f"conv {SHAPE} -F 1"
    assert skipjack.lookup(command, strict=True) is None  # nothing is banked, and nothing is wrong
    with pytest.raises(SkipjackError, match="unknown solver"):
        skipjack.find(command, solvers="none")
    with pytest.raises(ProblemError, match="means 3 problems"):
        skipjack.tune(f"conv {SHAPE}")
