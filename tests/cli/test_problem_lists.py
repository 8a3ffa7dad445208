"""Problems that users request: keys, commands of MIOpenDriver, and files of both."""

import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.app.problems import make_defaults, read_problems
from skipjack.core import Problem
from skipjack.errors import UsageError
from skipjack.interop import Defaults, NotApplicable

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

CONV = "conv2d:n1c4h6w6k4y3x3"
NOTHING = Defaults()


def texts(
    keys: list[str],
    defaults: Defaults = NOTHING,
    file: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[str]:
    entries = read_problems(keys, file, defaults, say=say)
    return [entry.key if isinstance(entry, Problem) else entry.text for entry in entries]


def test_an_argument_with_a_blank_is_a_command_and_may_mean_several_problems() -> None:
    assert texts(["relu:8", "MIOpenDriver conv -n 1 -c 4 -H 6 -W 6 -k 4 -F 3"]) == [
        "relu:8:f32",
        f"{CONV}:f32:NCHW:fwd",
        f"{CONV}:f32:NCHW:bwd",
    ]


def test_a_file_holds_both_kinds_in_order_and_each_once(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text(
        "# a network\n"
        "relu:8 # after the first layer\n"
        "relu:8# again\n"
        "./bin/MIOpenDriver conv -n 1 -c 4 -H 6 -W 6 -k 4 -F 1 -t 1\n"
        "\n"
        '"log: ./bin/MIOpenDriver pool -n 1 -F 1"\n'
        "-n 1 -c 4 -H 6 -W 6 -k 4 -F 2\n"
        "MIOpenDriver pool -n 1 -F 1 -t 1\n"
        f"{CONV}\n"
        "sum:8x8\n"
    )
    assert texts(["sum:8x8"], file=file) == [
        "sum:8x8/axis=0,1:f32",
        "relu:8:f32",
        f"{CONV}:f32:NCHW:fwd",
        "pool2d:n1c3h32w32y3x3/mode=max:f32:NCHW:fwd",
        f"{CONV}:f32:NCHW:bwd",
    ]


def test_lone_output_layouts_of_a_list_are_told_once(tmp_path: Path) -> None:
    said: list[str] = []
    file = tmp_path / "list.txt"
    command = "MIOpenDriver conv -n 1 -c 4 -H 6 -W 6 -k 4 --out_layout NHWC"
    file.write_text(f"{command} -F 1\n{command} -F 2\nrelu:8\n")
    keys = [f"{CONV}:f32:NHWC:fwd", f"{CONV}:f32:NHWC:bwd", "relu:8:f32"]
    assert texts([], file=file, say=said.append) == keys
    assert said == [
        f"{file}: 2 commands: --out_layout without the other two is used as the layout of all "
        "arrays"
    ]
    assert texts([f"{command} -F 1"], say=said.append) == keys[:1]
    assert said[1].startswith("1 command: --out_layout")


def test_standard_input_is_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("relu:8\nMIOpenDriver lrn -n 4\n"))
    assert texts([], file=Path("-")) == ["relu:8:f32", "MIOpenDriver lrn -n 4"]


def test_defaults_fill_in_what_keys_and_commands_leave_out() -> None:
    asked = make_defaults("f32", "nhwc", "WRW")
    keys = [CONV, f"{CONV}:NHWC", "MIOpenDriver conv -n 2 -c 4 -H 6 -W 6 -k 4", "relu:8"]
    assert texts(keys, asked) == [
        f"{CONV}:f32:NHWC:wrw",
        f"{CONV.replace('n1', 'n2')}:f32:NHWC:wrw",
        "relu:8:f32",
    ]


def test_all_directions_are_three_problems_unless_one_is_named() -> None:
    asked = make_defaults(None, None, "all")
    assert texts([CONV, "relu:8"], asked) == [
        *(f"{CONV}:f32:NCHW:{direction}" for direction in ("fwd", "bwd", "wrw")),
        "relu:8:f32",
    ]
    assert texts([f"{CONV}:bwd"], asked) == [f"{CONV}:f32:NCHW:bwd"]


@pytest.mark.parametrize(
    ("keys", "asked", "complaint"),
    [
        ([f"{CONV}:fwd"], ("bwd", None), "says fwd but the direction asked for is bwd"),
        ([f"{CONV}:NCHW"], (None, "NHWC"), "says NCHW but the layout asked for is NHWC"),
        (["MIOpenDriver conv -F 1"], ("bwd", None), "says fwd but the direction asked for is bwd"),
        (
            [CONV],
            ("sideways", None),
            "unknown direction 'sideways'; choose from fwd, bwd, wrw, all",
        ),
        ([CONV], (None, "NWHC"), "unknown layout 'NWHC'"),
        (["relu:8"], ("fwd", None), "--direction has no effect on relu:8:f32; leave it out"),
        (["relu:8", "sum:8"], (None, "NHWC"), "--layout has no effect on relu:8:f32"),
        (["relu:8 sum:8"], (None, None), "neither the key of a problem, which has no spaces"),
        ([], (None, None), "no problem given"),
    ],
)
def test_a_contradiction_or_a_flag_in_vain_is_one_sentence(
    keys: list[str], asked: tuple[str | None, str | None], complaint: str
) -> None:
    direction, layout = asked
    with pytest.raises(UsageError, match=complaint):
        read_problems(keys, None, make_defaults(None, layout, direction))


def test_a_mistake_in_a_file_names_the_line_and_the_flag(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("relu:8\n\nMIOpenDriver conv -n 1 --in_hh 4\n")
    with pytest.raises(UsageError, match=r"list\.txt, line 3: .*unknown flag --in_hh"):
        read_problems([], file, NOTHING)


def test_what_is_not_applicable_is_said_and_is_no_error(skipjack: Skipjack) -> None:
    done = skipjack("tune", "MIOpenDriver pool -n 1 -F 1", "MIOpenDriver convint8 -n 1 -F 1")
    assert (done.returncode, done.stdout) == (0, "")
    first, second = done.stderr.splitlines()
    assert first == (
        "skipjack: not applicable: pool2d:n1c3h32w32y3x3/mode=max:f32:NCHW:fwd: "
        "no kernel here computes pooling"
    )
    assert "its dtype is i8" in second


def test_a_problem_for_gpus_alone_does_not_stop_a_list(skipjack: Skipjack, tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_text("relu:8\nrelu:8:f16\n")
    done = skipjack("tune", "-f", str(file), "--budget", "1", "--json", "--device", "cpu")
    assert done.returncode == 0, done.stderr
    found = {one["problem"]: one["status"] for one in map(json.loads, done.stdout.splitlines())}
    assert found["relu:8:f16"] == "not_applicable" and found["relu:8:f32"] != "not_applicable"
    alone = skipjack("tune", "relu:8:f16", "--budget", "1", "--device", "cpu")
    assert alone.returncode == 2 and "f16" in alone.stderr


def test_machines_get_an_object_for_what_is_not_applicable(skipjack: Skipjack) -> None:
    command = "MIOpenDriver bnorm -n 2 -c 2 -H 4 -W 4 -m 1"
    done = skipjack("tune", f"{command} -D 3", command, "--json", "--budget", "2")
    skipped, tuned = map(json.loads, done.stdout.splitlines())
    assert skipped == {
        "format": 2,
        "problem": "batchnorm:n2c2d3h4w4/eps=1e-05/mode=train:f32:NCDHW",
        "status": "not_applicable",
        "reason": "its image has a depth; kernels need NCHW",
    }
    assert tuned["problem"] == "batchnorm:n2c2h4w4/eps=1e-05/mode=train:f32"
    assert done.returncode == 0


def test_builds_skip_what_is_not_applicable(skipjack: Skipjack) -> None:
    done = skipjack("tune", "MIOpenDriver lrn -n 1", "relu:64", "--build-only", "--json")
    statuses = [json.loads(line).get("status") for line in done.stdout.splitlines()]
    assert statuses[0] == "not_applicable"
    assert (len(statuses), done.returncode) == (2, 0)


def test_not_applicable_is_a_value() -> None:
    assert NotApplicable("a", "b") == NotApplicable("a", "b")
    assert len({NotApplicable("a", "b"), NotApplicable("a", "b")}) == 1
