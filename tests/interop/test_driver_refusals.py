"""What a command leaves open, what it may not say, and what it says wrongly."""

import pytest

from skipjack.core import Problem
from skipjack.errors import ProblemError, UsageError
from skipjack.interop import Defaults, parse_driver


def texts(line: str, defaults: Defaults) -> list[str]:
    entries = parse_driver(line, defaults)
    return [entry.key for entry in entries if isinstance(entry, Problem)]


def test_defaults_fill_in_what_a_command_leaves_open() -> None:
    asked = Defaults("f32", "NHWC", "bwd")
    wanted = ["conv2d:n1c3h32w32k32y3x3:f32:NHWC:bwd"]
    assert texts("MIOpenDriver conv -n 1", asked) == wanted
    assert texts("MIOpenDriver conv -n 1 -F 0", asked) == wanted
    assert texts("MIOpenDriver conv -n 1 --in_layout NHWC -F 2", asked) == wanted


def test_all_directions_contradict_nobody() -> None:
    assert len(texts("MIOpenDriver conv -n 1 -F 2", Defaults(direction="all"))) == 1
    assert len(texts("MIOpenDriver conv -n 1", Defaults(direction="all"))) == 3


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (Defaults(dtype="f64"), "says f32 but the dtype asked for is f64"),
        (Defaults(layout="NHWC"), "says NCHW but the layout asked for is NHWC"),
        (Defaults(direction="wrw"), "says fwd and bwd but the direction asked for is wrw"),
        (Defaults(layout="NCDHW"), "says NCHW but the layout asked for is NCDHW"),
    ],
)
def test_a_contradiction_is_refused(asked: Defaults, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        parse_driver("MIOpenDriver conv -I NCHW -F 3", asked)


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("-n", "flag -n has no value"),
        ("-n -c 3", "flag -n has no value"),
        ("-n eight", "flag -n is 'eight'; it must be an integer"),
        ("--batchsize 8.0", "flag --batchsize is '8.0'; it must be an integer"),
        ("-n 0", "flag -n is 0; it must be at least 1"),
        ("-p -1", "flag -p is -1; it must be at least 0"),
        ("-u 0", "flag -u is 0; it must be"),
        (f"-n {'9' * 5000}", "it must be an integer"),
        ("-F 8", "flag -F is 8; it must be from 0 to 7"),
        ("--in_h=5", "--in_h=5 is one word; write two: --in_h 5"),
        ("--in_hh 5", "unknown flag --in_hh; did you mean --in_h?"),
        ("-forw 1", "unknown flag -forw; did you mean --forw?"),
        ("-A 5", "unknown flag -A"),
        ("-n 5 6", "'6' is where a flag should be"),
        ("-m convolve", "flag -m is 'convolve'; it must be conv or trans"),
        ("-z full", "flag -z is 'full'; it must be default, same or valid"),
        ("-_ 4", "flag -_ is '4'; it must be 2 or 3"),
    ],
)
def test_a_wrong_flag_is_named(flags: str, complaint: str) -> None:
    with pytest.raises(ProblemError) as raised:
        parse_driver(f"MIOpenDriver conv {flags}")
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("base", ["conv", "convfp16"])
@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("-H 5 -y 6", "the filter covers 6 pixels of the height"),
        ("-c 6 -k 4 -g 4", "4 groups do not divide 6 input channels"),
        ("-n 999999999 -c 999999999", "larger than any memory"),
    ],
)
def test_an_impossible_geometry_is_refused_whatever_the_precision(
    base: str, flags: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        parse_driver(f"MIOpenDriver {base} {flags}")
