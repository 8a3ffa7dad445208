"""Problem keys: one canonical text, short forms, and one clear sentence for everything else."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skipjack.core import LetteredShape, Problem, format_shape, parse_shape, split_key
from skipjack.core.problem import MAX_AXES
from skipjack.errors import ProblemError, UsageError
from skipjack.operations import Convolution, get, names, parse

REPEATABLE = settings(derandomize=True, deadline=None)


@st.composite
def keys(draw: st.DrawFn) -> str:
    """Keys of every operation, not all of them canonical: axes in any order and sign."""
    name = draw(st.sampled_from(names()))
    rank = {"matmul": 3, "bmm": 4}.get(name) or draw(st.integers(1, 4))
    shape = "x".join(str(draw(st.integers(1, 999))) for _ in range(rank))
    if isinstance(get(name), Convolution):
        shape = "n1c2d8h8w8k2z2y2x2" if name.endswith("3d") else "n1c2h8w8k2y2x2"
    elif isinstance(get(name), LetteredShape):
        shape = "".join(f"{letter}{draw(st.integers(1, 99))}" for letter in "nchw")
    places = st.integers(-rank, rank - 1)
    axes = draw(st.lists(places, max_size=4, unique_by=lambda place: place % rank))
    axis = f"/axis={','.join(map(str, axes))}" if axes and hasattr(get(name), "axes") else ""
    dtype = draw(st.sampled_from(("", ":f32", ":f64")))
    return f"{name}:{shape}{axis}{dtype}"


@REPEATABLE
@given(keys())
def test_a_key_parses_back_to_an_equal_problem(text: str) -> None:
    problem = parse(text)
    assert parse(problem.key) == problem
    assert parse(problem.key).key == problem.key
    assert str(problem) == problem.key


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("matmul:1x2x3", "matmul:1x2x3:f32"),
        ("  matmul:1x2x3\n", "matmul:1x2x3:f32"),
        ("sum:4x5", "sum:4x5/axis=0,1:f32"),
        ("sum:4x5/axis=-1:f64", "sum:4x5/axis=1:f64"),
        ("max:4x5x6/axis=-1,0", "max:4x5x6/axis=0,2:f32"),
        ("norm:4x5x6/axis=all", "norm:4x5x6/axis=0,1,2:f32"),
        ("min:4x5x6/axis=-3", "min:4x5x6/axis=0:f32"),
        ("add:007", "add:7:f32"),
    ],
)
def test_a_short_form_means_the_full_key(short: str, full: str) -> None:
    assert parse(short).key == full
    assert parse(short) == parse(full)


def test_a_dtype_asked_for_fills_in_and_must_not_contradict() -> None:
    assert parse("add:4", "f64").dtype == "f64"
    assert parse("add:4:f64", "f64").dtype == "f64"
    with pytest.raises(ProblemError, match="says f32 but the dtype asked for is f64"):
        parse("add:4:f32", "f64")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no shape"),
        ("matmul", "no shape"),
        (":", "name of an operation"),
        ("Matmul:1x1x1", "name of an operation"),
        ("matmull:1x1x1", "did you mean matmul"),
        ("mat:8x8x8", "did you mean matmul?"),
        ("soft:8x8", "did you mean softmax?"),
        ("zzzzqq:4", "choose from abs"),
        ("matmul:4x4", "needs 3"),
        ("add:", "not a shape"),
        ("add:4x", "not a shape"),
        ("add:4 x 5", "not a shape"),
        ("add:4.5", "not a shape"),
        ("add:٤x٣", "not a shape"),
        ("add:4x\n5", "not a shape"),
        ("add:0x4", "at least 1"),
        ("add:-3", "at least 1"),
        ("add:" + "9" * 18, "larger than any memory"),
        ("add:" + "9" * 5000, "larger than any memory"),
        ("add:99999999x99999999", "larger than any memory"),
        ("add:" + "x".join(["1"] * (MAX_AXES + 1)), "axes"),
        ("add:4:f99", "unknown dtype 'f99'"),
        ("add:4:tf32", "unknown dtype 'tf32' for add: choose f32, f64, f16 or bf16"),
        ("add:4:", "unknown dtype ''"),
        ("add:4:f32:f32", "nothing else"),
        ("add:4/axis=0", "unknown attribute 'axis'"),
        ("sum:4/axes=0", "unknown attribute 'axes'"),
        ("sum:4/axis", "name=value"),
        ("sum:4/axis=", "name=value"),
        ("sum:4/axis=0/axis=0", "twice"),
        ("sum:4x5/axis=2", "axis 2 is out of range; the axes are 0 to 1, or -2 to -1"),
        ("prod:4x5/axis=-3", "axis -3 is out of range"),
        ("min:4x5/axis=0,1,2", "axis 2 is out of range"),
        ("sum:4x5/axis=none", "'none' is not an axis number; write axis=0 or axis=0,2 or axis=all"),
        ("sum:4x5/axis=0,all", "'all' is not an axis number"),
        ("sum:4x5/axis=1_0", "not an axis number"),
        ("sum:4x5/axis=0,", "not an axis number"),
        ("sum:4x5/axis=" + "1" * 6000, "not an axis number"),
    ],
)
def test_what_cannot_be_understood_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    message = str(caught.value)
    assert says in message
    assert "\n" not in message
    assert len(message) < 400


KEY_LIKE = st.text("matulsx:/=,-+0123456789f._ \n٣", max_size=40)


@settings(REPEATABLE, max_examples=400)
@given(st.one_of(st.text(), KEY_LIKE, KEY_LIKE.map(lambda tail: f"sum:{tail}")))
@example("sum:4/axis=" + "٣")
@example("a" * 100_000 + ":1")
@example("add:" + "1x" * 100_000)
def test_no_text_does_worse_than_a_usage_error(text: str) -> None:
    try:
        problem = parse(text)
    except UsageError as error:
        assert len(str(error)) < 500
    else:
        assert parse(problem.key) == problem


@REPEATABLE
@given(st.lists(st.integers(1, 10**17), min_size=1, max_size=MAX_AXES))
def test_shapes_and_their_texts_map_one_to_one(sizes: list[int]) -> None:
    assert parse_shape(format_shape(tuple(sizes)), "here") == tuple(sizes)


def test_the_grammar_is_cut_without_knowing_operations() -> None:
    parts = split_key("anything:1x2/a=b/c=d,e:f32:nhwc")
    assert (parts.operation, parts.shape) == ("anything", "1x2")
    assert parts.attributes == {"a": "b", "c": "d,e"}
    assert parts.suffixes == ("f32", "nhwc")


def test_an_attribute_that_is_not_there_is_a_key_error() -> None:
    assert Problem("sum", (4,), attributes=(("axis", "0"),)).attribute("axis") == "0"
    with pytest.raises(KeyError):
        Problem("sum", (4,)).attribute("axis")


def test_a_large_matmul_is_measured_by_its_arrays_not_its_arithmetic() -> None:
    assert parse("matmul:100000x100000x100000").shape == (100000, 100000, 100000)
