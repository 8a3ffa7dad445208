"""Commands that a program logged are read back, behind any prefix."""

from pathlib import Path

import pytest

from skipjack.app import Placement
from skipjack.app.problems import read_placed
from skipjack.errors import UsageError
from skipjack.interop import Defaults, find_tune_command, is_own_message, problem_text, read_text
from skipjack.operations import parse
from skipjack.runtime.online import command_line

CONV = parse("conv2d:n1c2h4w4k2y1x1", "f16", layout="NHWC", direction="bwd")


@pytest.mark.parametrize(
    "prefix", ["", "12:01:05.3 [rank 0] ", "worker-1: ", "env A=1 /usr/bin/", "1| $ "]
)
@pytest.mark.parametrize("problem", [parse("add:8"), parse("sum:4x8/axis=1"), CONV])
def test_what_is_logged_is_read_back_behind_any_prefix(prefix: str, problem: object) -> None:
    key = problem.key  # type: ignore[attr-defined]
    line = prefix + command_line(key, "znver4/2", ["my ops.py"])
    assert read_text(problem_text(line), Defaults()) == (problem,)
    command = find_tune_command(line)
    assert command is not None
    assert (command.problems, command.device, command.plugins) == (
        (key,),
        "znver4/2",
        ("my ops.py",),
    )


def test_the_deployment_of_a_command_is_read_back(tmp_path: Path) -> None:
    listed = tmp_path / "commands.txt"
    lines = [command_line("add:8:f32", "znver4/1", (), way) for way in (None, "eager/cold")]
    listed.write_text("\n".join(lines))
    (add,) = read_text("add:8:f32", Defaults())
    assert read_placed([], listed, Defaults()) == {
        Placement("znver4/1"): [add],
        Placement("znver4/1", None, "eager", "cold"): [add],
    }


def test_options_of_a_command_are_of_its_problems() -> None:
    line = "skipjack tune add:8 conv2d:n1c2h4w4k2y1x1 --dtype=f16 --layout nhwc --threads 2"
    command = find_tune_command(line)
    assert command is not None
    assert command.threads == 2
    assert [entry.key for entry in read_text(line, Defaults("f64"))] == [  # type: ignore[union-attr]
        "add:8:f16",
        parse("conv2d:n1c2h4w4k2y1x1", "f16", layout="NHWC").key,
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("skipjack tune add:8 --budget 4", "only have problems and --device"),
        ("skipjack tune add:8 --threads two", "give an integer"),
        ("skipjack tune 'add:8", "cannot parse the command"),
        ("skipjack tune mine:8 --plugin ops.py", "has --plugin ops.py; add this option"),
    ],
)
def test_what_cannot_be_read_is_told(line: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        read_text(line, Defaults())


def test_other_messages_of_ours_name_no_problem() -> None:
    assert is_own_message("WARNING:skipjack.runtime.lookup:add:8 is of an older solver")
    assert is_own_message("skipjack: waiting for the lock")
    assert not is_own_message("add:8:f32")
    assert not is_own_message("1: skipjack tune add:8:f32 --device znver4/1")
    assert not is_own_message("/home/skipjack/bin/MIOpenDriver conv -n 1")
