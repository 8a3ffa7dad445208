"""Keys of a find-db are problems again."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.core import Problem
from skipjack.errors import ProblemError
from skipjack.interop import NotApplicable, is_find_db_line, parse_driver, parse_find_db

_BESIDE = Path(__file__).parents[3] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

DRIVER_AND_KEY = [
    (
        "conv -n 64 -c 128 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -F 1",
        "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F",
    ),
    (
        "conv -n 32 -c 256 -H 57 -W 57 -k 512 -y 1 -x 1 -u 2 -v 2 -F 2",
        "512-29-29-1x1-256-57-57-32-0x0-2x2-1x1-0-NCHW-FP32-B",
    ),
    (
        "conv -n 16 -c 64 -H 80 -W 45 -k 96 -y 5 -x 3 -p 2 -q 1 --in_layout NHWC "
        "--fil_layout NHWC --out_layout NHWC -F 4",
        "96-80-45-5x3-64-80-45-16-2x1-1x1-1x1-0-NHWC-NHWC-NHWC-FP32-W",
    ),
    (
        "conv -n 8 -c 144 -H 56 -W 56 -k 144 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 144 -F 1",
        "144-56-56-3x3-144-28-28-8-1x1-2x2-1x1-0-NCHW-FP32-F_g144",
    ),
    (
        "conv --spatial_dim 3 -n 4 -c 32 --in_d 16 -H 64 -W 64 -k 64 --fil_d 3 -y 3 -x 3 "
        "--pad_d 1 -p 1 -q 1 -u 2 -v 2 -F 1",
        "32-16-64-64-3x3x3-64-16-32-32-4-1x1x1-1x2x2-1x1x1-0-NCDHW-FP32-F",
    ),
]


@pytest.mark.parametrize(("command", "key"), DRIVER_AND_KEY)
def test_a_key_and_its_command_are_the_same_problem(command: str, key: str) -> None:
    assert (parse_find_db(f"{key}=Solver:1.5,0,algorithm"),) == parse_driver(
        f"MIOpenDriver {command}"
    )


def test_a_name_of_a_file_before_the_key_does_not_matter() -> None:
    key = DRIVER_AND_KEY[0][1]
    plain = parse_find_db(key)
    assert parse_find_db(f"gfx900_56.fdb.txt:{key}=S:1,0,a") == plain
    assert parse_find_db(f'"{key}"') == plain


def test_a_key_that_contradicts_itself_is_refused_with_both_sizes() -> None:
    with pytest.raises(ProblemError, match="its result is 29x28, but its other sizes give 28x28"):
        parse_find_db("128-28-28-3x3-256-29-28-64-1x1-1x1-1x1-0-NCHW-FP32-F=S:1,0,a")


@pytest.mark.parametrize(("text", "dtype"), [("FP16", "f16"), ("BF16", "bf16"), ("FP64", "f64")])
def test_the_type_of_a_key_is_the_problems(text: str, dtype: str) -> None:
    key = DRIVER_AND_KEY[0][1]
    plain = parse_find_db(key)
    assert isinstance(plain, Problem)
    assert parse_find_db(key.replace("FP32", text)) == replace(plain, dtype=dtype)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("FP32", "INT8"), "its dtype is i8"),
        (("FP32", "INT8INT8INT32"), "int8int8int32"),
        (("-0-", "-1-"), "a bias"),
        (("FP32-F", "FP32-F_ciFP8"), "casts"),
        (("NCHW", "NCHW-NHWC-NCHW"), "must have the layout"),
    ],
)
def test_what_is_not_computed_here_is_not_applicable(change: tuple[str, str], reason: str) -> None:
    entry = parse_find_db(DRIVER_AND_KEY[0][1].replace(*change))
    assert isinstance(entry, NotApplicable)
    assert reason in entry.reason


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("128-28-28-3x3-256-28-28-64-1x1-0x1-1x1-0-NCHW-FP32-F", "stride"),
        ("128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-ABCD-FP32-F", "not a layout"),
        ("128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCDHW-FP32-F", "not a layout"),
        ("128-28-28-3x3-256-28-28-64-1x1x1-1x1-1x1-0-NCHW-FP32-F", "mixes two and three"),
        (f"{'9' * 30}-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F", "larger than any memory"),
        ("128-28-28-3x3-256-28-28-64", "is not a key of a find-db"),
        ("128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F_g3", "do not divide"),
        ("2x10x1x1x1x1x1x1x26x1x0x0x0x1x1x0x1x1x0x0x1xNCHWxFP32xB=S:2", "perf-db"),
    ],
)
def test_wrong_keys_are_refused_with_a_reason(text: str, match: str) -> None:
    assert is_find_db_line(text)
    with pytest.raises(ProblemError, match=match):
        parse_find_db(text)


@pytest.mark.parametrize("text", ["sum:8x16/axis=1", "-n 1 -c 3", "conv2d:n1c3h8w8k4y3x3"])
def test_other_lines_are_none(text: str) -> None:
    assert not is_find_db_line(text)


@given(
    st.tuples(*[st.integers(1, 64)] * 6),
    st.tuples(*[st.integers(1, 4)] * 2),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.sampled_from("FBW"),
)
def test_the_key_of_any_problem_gives_it_back(
    sizes: tuple[int, ...], steps: tuple[int, ...], pads: tuple[int, ...], direction: str
) -> None:
    n, c, h, w, k, filters = sizes
    (u, v), (p, q) = steps, pads
    y, x = min(filters, h), min(filters, w)
    image = f"{c}-{h}-{w}"
    result = f"{k}-{(h + 2 * p - y) // u + 1}-{(w + 2 * q - x) // v + 1}"
    first, second = (image, result) if direction == "F" else (result, image)
    key = f"{first}-{y}x{x}-{second}-{n}-{p}x{q}-{u}x{v}-1x1-0-NCHW-FP32-{direction}"
    problem = parse_find_db(key)
    assert isinstance(problem, Problem)
    assert problem.shape == (n, c, h, w, k, y, x, p, q, u, v, 1, 1, 1)
    assert problem.direction == {"F": "fwd", "B": "bwd", "W": "wrw"}[direction]


@pytest.mark.skipif(not FOLDER, reason="FIND_DBS names no folder of find-dbs")
def test_every_line_of_real_databases_is_understood() -> None:
    lines = [
        line for path in Path(FOLDER).glob("*.fdb.txt") for line in path.read_text().splitlines()
    ]
    assert lines
    for line in lines:
        assert is_find_db_line(line)
        assert isinstance(parse_find_db(line), Problem | NotApplicable)
