"""Keys of our problems in MIOpen's databases."""

import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from skipjack.core import Problem
from skipjack.errors import ProblemError, UsageError
from skipjack.interop import parse_driver, parse_find_db
from skipjack.interop.miopen import find_key, parse_find_key, perf_key, read_text_db
from skipjack.interop.miopen.keys import perf_fields, problem_text
from skipjack.operations import parse

_BESIDE = Path(__file__).parents[4] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

COMMANDS = [
    (
        "conv -n 64 -c 128 -H 28 -W 28 -k 256 -y 3 -x 3 -p 1 -q 1 -F 1",
        "128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F",
        "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF",
    ),
    (
        "convfp16 -n 32 -c 256 -H 57 -W 57 -k 512 -y 1 -x 1 -u 2 -v 2 -F 2",
        "512-29-29-1x1-256-57-57-32-0x0-2x2-1x1-0-NCHW-FP16-B",
        "2x512x29x29x1x1x1x1x256x32x0x0x0x2x2x0x1x1x0x0x1xNCHWxFP16xB",
    ),
    (
        "convbfp16 -n 16 -c 64 -H 80 -W 45 -k 96 -y 5 -x 3 -p 2 -q 1 --in_layout NHWC "
        "--fil_layout NHWC --out_layout NHWC -F 4",
        "96-80-45-5x3-64-80-45-16-2x1-1x1-1x1-0-NHWC-NHWC-NHWC-BF16-W",
        "2x96x80x45x1x5x3x1x64x16x2x1x0x1x1x0x1x1x0x0x1xNHWCxBF16xW",
    ),
    (
        "conv -n 8 -c 144 -H 56 -W 56 -k 144 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -g 144 -F 1",
        "144-56-56-3x3-144-28-28-8-1x1-2x2-1x1-0-NCHW-FP32-F_g144",
        "2x144x56x56x1x3x3x1x144x8x1x1x0x2x2x0x1x1x0x0x144xNCHWxFP32xF",
    ),
    (
        "convfp16 --spatial_dim 3 -n 4 -c 32 --in_d 16 -H 64 -W 64 -k 64 --fil_d 3 -y 3 -x 3 "
        "--pad_d 1 -p 1 -q 1 -u 2 -v 2 -F 1",
        "32-16-64-64-3x3x3-64-16-32-32-4-1x1x1-1x2x2-1x1x1-0-NCDHW-FP16-F",
        "3x32x64x64x16x3x3x3x64x4x1x1x1x2x2x1x1x1x1x0x1xNCDHWxFP16xF",
    ),
    (
        "conv -n 8 -c 64 -H 16 -W 16 -k 32 -y 4 -x 4 -p 1 -q 1 -u 2 -v 2 -m trans -F 1",
        "64-16-16-4x4-32-32-32-8-1x1-2x2-1x1-0-NCHW-FP32-B",
        "2x64x16x16x1x4x4x1x32x8x1x1x0x2x2x0x1x1x0x0x1xNCHWxFP32xB",
    ),
    (
        "convfp16 -n 2 -c 48 -H 33 -W 65 -k 48 -y 3 -x 3 -p 6 -q 6 -l 6 -j 6 -F 4",
        "48-33-65-3x3-48-33-65-2-6x6-1x1-6x6-0-NCHW-FP16-W",
        "2x48x33x65x1x3x3x1x48x2x6x6x0x1x1x0x6x6x0x0x1xNCHWxFP16xW",
    ),
]


@pytest.mark.parametrize(("command", "find", "perf"), COMMANDS)
def test_a_command_has_these_keys(command: str, find: str, perf: str) -> None:
    (problem,) = parse_driver(f"MIOpenDriver {command}")
    assert isinstance(problem, Problem)
    assert (find_key(problem), perf_key(problem)) == (find, perf)


@st.composite
def convolutions(draw: st.DrawFn) -> Problem:
    spatial, groups = draw(st.sampled_from([2, 3])), draw(st.integers(1, 3))
    axes = "dhw"[3 - spatial :], "zyx"[3 - spatial :], "opq"[3 - spatial :]
    steps = "tuv"[3 - spatial :] + "ilj"[3 - spatial :]
    small = st.integers(1, 4)
    shape = f"n{draw(small)}c{groups * draw(small)}k{groups * draw(small)}g{groups}"
    shape += "".join(f"{at}{draw(st.integers(1, 30))}" for at in axes[0])
    shape += "".join(f"{at}{draw(small)}" for at in axes[1] + steps)
    shape += "".join(f"{at}{draw(st.integers(0, 4))}" for at in axes[2])
    layout = draw(st.sampled_from(["NCHW", "NHWC"] if spatial == 2 else ["NCDHW", "NDHWC"]))
    try:
        return parse(
            f"conv{spatial}d:{shape}",
            draw(st.sampled_from(["f32", "f16", "bf16", "f64"])),
            layout=layout,
            direction=draw(st.sampled_from(["fwd", "bwd", "wrw"])),
        )
    except ProblemError:
        assume(False)
        raise


@settings(max_examples=60)
@given(convolutions())
def test_a_find_key_means_its_problem(problem: Problem) -> None:
    text = find_key(problem)
    assert parse_find_db(text) == problem
    key = parse_find_key(text)
    assert key is not None
    assert (key.text, key.perf_text, key.excess) == (text, perf_key(problem), 0)
    assert problem_text(key) == problem.key
    fields = perf_fields(key.perf_text)
    assert fields is not None
    assert "x".join(map(str, fields)) == key.perf_text


def test_transposed_convolutions_have_the_keys_of_plain_ones() -> None:
    shape = "n8c64h16w16k32y4x4p1q1u2v2"
    plain = "n8c32h32w32k64y4x4p1q1u2v2"
    for direction, same in (("fwd", "bwd"), ("bwd", "fwd"), ("wrw", "wrw")):
        problem = parse(f"conv_transpose2d:{shape}", direction=direction)
        assert find_key(problem) == find_key(parse(f"conv2d:{plain}", direction=same))


@pytest.mark.parametrize("text", ["matmul:8x8x8", "conv2d:n1c1h1w1k1y1x1:tf32"])
def test_what_miopen_has_no_key_for_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="MIOpen's databases have no"):
        find_key(parse(text))


def test_a_result_that_is_one_larger_is_kept_as_it_is_said() -> None:
    text = "64-10-10-2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-F"
    larger = text.replace("11-11", "12-12")
    key, more = parse_find_key(text), parse_find_key(larger)
    assert key and more
    assert (key.excess, more.excess, more.text) == (0, 1, larger)
    assert problem_text(more) is None
    with pytest.raises(ProblemError):
        parse_find_db(larger)


@pytest.mark.parametrize(
    "text",
    [
        "64-10-10-2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-X",
        "64-10-10-2x2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-F",
        "64-10-10-2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-F more",
        "64-10-10-2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-F_h2",
        f"{'9' * 20}-10-10-2x2-64-11-11-1-1x1-1x1-1x1-0-NCHW-FP32-F",
    ],
)
def test_other_texts_are_no_keys(text: str) -> None:
    assert parse_find_key(text) is None


@pytest.mark.skipif(not FOLDER, reason="no databases are here; name a folder in FIND_DBS")
def test_real_keys_come_back() -> None:
    for path in Path(FOLDER).glob("*.fdb.txt"):
        for record in read_text_db(path):
            key = parse_find_key(record.key)
            assert key is not None, record.key
            assert key.text == record.key
    for path in Path(FOLDER).glob("*.db.txt"):
        assert all(perf_fields(record.key) for record in read_text_db(path))
