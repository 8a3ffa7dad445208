"""The command is found in whatever a log or a list puts around it."""

import pytest

from skipjack.errors import ProblemError
from skipjack.interop import is_driver_line, without_comment
from skipjack.interop.driver import Command, find_command

WANTED = Command("conv", ("-n", "8", "-c", "64", "-F", "1"))


@pytest.mark.parametrize(
    "line",
    [
        "MIOpenDriver conv -n 8 -c 64 -F 1",
        "./bin/MIOpenDriver conv -n 8 -c 64 -F 1",
        "/opt/rocm/bin/MIOpenDriver conv -n 8 -c 64 -F 1",
        "  ./bin/MIOpenDriver\tconv  -n\t8 -c   64 -F 1 \r\n",
        "miopenConvolutionForward: ./bin/MIOpenDriver conv -n 8 -c 64 -F 1",
        "MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv -n 8 -c 64 -F 1",
        '"./bin/MIOpenDriver conv -n 8 -c 64 -F 1"',
        "'MIOpenDriver conv -n 8 -c 64 -F 1',",
        'rank 3 ran "./bin/MIOpenDriver conv -n 8 -c 64 -F 1" in 12 ms',
        '"rank 3: ./bin/MIOpenDriver conv -n 8 -c 64 -F 1"',
        '{"name": "a", "command": "./bin/MIOpenDriver conv -n 8 -c 64 -F 1", "count": 2}',
        '"./my bin/MIOpenDriver" conv -n 8 -c 64 -F 1',
        "that's it: MIOpenDriver conv -n 8 -c 64 -F 1",
        "MIOpenDriver conv -n \"8\" -c '64' -F 1",
        "MIOpenDriver conv -n 8 -c 64 -F 1  # the first layer",
        "conv -n 8 -c 64 -F 1",
        "-n 8 -c 64 -F 1",
    ],
)
def test_what_stands_around_a_command_does_not_matter(line: str) -> None:
    assert find_command(line) == WANTED


def test_a_flag_with_a_hash_is_no_comment() -> None:
    line = "MIOpenDriver conv -# 2 -n 8 # and this is one"
    assert without_comment(line) == "MIOpenDriver conv -# 2 -n 8"
    assert without_comment("# MIOpenDriver conv") == ""


def test_backslashes_that_a_shell_needs_are_taken_away() -> None:
    assert find_command(r"MIOpenDriver conv -\! 16 -\$ 1").words == ("-!", "16", "-$", "1")


def test_a_command_has_one_canonical_text() -> None:
    assert find_command("x ./bin/MIOpenDriver  conv\t-n 8").text == "MIOpenDriver conv -n 8"


@pytest.mark.parametrize("text", ["conv2d:n1c64h56w56k64y3x3", "matmul:64x64x64", "relu:4096:f64"])
def test_a_key_is_no_command(text: str) -> None:
    assert not is_driver_line(text)


@pytest.mark.parametrize("text", ["MIOpenDriver", "./bin/MIOpenDriver conv", "-n 8", "conv -n 8"])
def test_a_text_with_a_blank_or_the_drivers_name_is_one(text: str) -> None:
    assert is_driver_line(text)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("MIOpenDriver", "no base"),
        ("./bin/MIOpenDriver -n 8", "no base"),
        ("matmul:64x64x64 and more", "neither the key of a problem"),
        ("matmul:64x64x64 -n 8", "neither the key of a problem"),
        ("", "neither the key of a problem"),
    ],
)
def test_a_line_without_a_command_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        find_command(line)
