"""Convolutions: keys, geometry, and references that agree with PyTorch in every direction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Problem, Projectable
from skipjack.errors import ProblemError, UsageError
from skipjack.execute import Checker, draw_inputs
from skipjack.operations import DIRECTIONS, Axis, Convolution, arrays_bytes, get, parse, references

SHAPES = (
    "conv2d:n2c6h9w11k8y3x3p1q1",
    "conv2d:n2c6h9w11k8y3x2p1q0u2v3l2j1g2",
    "conv2d:n1c6h8w8k6y3x3p1q1g6u2v2",
    "conv2d:n1c6h8w8k12y1x1g6",
    "conv3d:n2c4d5h6w7k6z2y3x3o1p1q1t2u1v2",
    "conv_transpose2d:n2c6h5w6k8y4x3p1q1u2v2g2a1",
    "conv_transpose3d:n1c4d3h4w5k6z2y3x3o1p1q1t2u2v2e1a1b1",
)


def operation(problem: Problem) -> Convolution:
    found = get(problem.operation)
    assert isinstance(found, Convolution)
    return found


@st.composite
def keys(draw: st.DrawFn) -> str:
    spatial, transposed = draw(st.sampled_from((2, 3))), draw(st.booleans())
    kind = Convolution(spatial, transposed)
    groups = draw(st.integers(1, 3))
    parts = []
    for letter in kind.letters:
        size = draw(st.integers(1, 4))
        if letter in "ck":
            size *= groups
        if letter in "dhw":
            size = draw(st.integers(12, 20))
        if letter in "opq":
            size = draw(st.integers(0, 1))
        if letter in "eab":
            size = 0
        if letter in "zyx":
            size = draw(st.integers(2, 3))
        parts.append(f"{letter}{groups if letter == 'g' else size}")
    tail = draw(
        st.permutations([draw(st.sampled_from(kind.layouts)), draw(st.sampled_from(DIRECTIONS))])
    )
    return ":".join([kind.name, "".join(parts), *tail])


@settings(derandomize=True, deadline=None)
@given(keys())
def test_a_key_parses_back(text: str) -> None:
    problem = parse(text)
    assert parse(problem.key) == problem
    assert problem.layout in text
    assert problem.direction in text


def test_the_canonical_key_leaves_defaults_out() -> None:
    short = "conv2d:n1c64h56w56k64y3x3p1q1"
    full = "conv2d:n1c64h56w56k64y3x3p1q1u1v1l1j1g1:f32:NCHW:fwd"
    assert parse(short) == parse(full)
    assert parse(full).key == f"{short}:f32:NCHW:fwd"
    assert parse(short, layout="nhwc", direction="wrw").key == f"{short}:f32:NHWC:wrw"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("conv2d:n1c3h4w4k8y7x7", "the filter covers 7 pixels of the height, but the padded"),
        ("conv2d:n1c3h9w4k8y3x3j4", "the filter covers 9 pixels of the width, but the"),
        ("conv2d:n1c6h4w4k8y1x1g4", "4 groups do not divide 6 input channels"),
        ("conv2d:n1c8h4w4k6y1x1g4", "4 groups do not divide 6 output channels"),
        ("conv2d:n1c8h4w4k6y1x1g0", "sizes must be at least 1"),
        ("conv2d:n1c8h4w4y1x1", "has no size 'k'"),
        ("conv2d:n1c8d4h4w4k8y1x1", "unknown size 'd'"),
        ("conv2d:n1c8h4w4k8y1x1/bias=1", "unknown attribute 'bias'"),
        ("conv2d:n1c8h4w4k8y1x1:f32:f64", "gives a dtype twice"),
        ("conv2d:n1c8h4w4k8y1x1:f32:NCHW:fwd:more", "takes a dtype, a layout and a direction"),
        ("conv_transpose2d:n1c8h4w4k8y3x3a1", "the output pad a is 1; it must be smaller"),
        ("conv_transpose2d:n1c8h1w4k8y1x1p1q0", "the pads leave an output without height"),
        ("conv2d:n1000000c1000000h9999w9999k8y1x1", "larger than any memory"),
    ],
)
def test_impossible_shapes_get_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ProblemError, match="problem") as caught:
        parse(text)
    assert sentence in str(caught.value)


def test_layouts_and_directions_are_known_or_refused() -> None:
    with pytest.raises(UsageError, match="unknown direction 'up' for conv2d: choose fwd or bwd"):
        parse("conv2d:n1c8h4w4k8y1x1", direction="up")
    with pytest.raises(UsageError, match="unknown layout 'CHWN' for conv2d: choose NCHW or NHWC"):
        parse("conv2d:n1c8h4w4k8y1x1", layout="chwn")
    with pytest.raises(ProblemError, match="says NHWC but the layout asked for is NCHW"):
        parse("conv2d:n1c8h4w4k8y1x1:NHWC", layout="NCHW")
    assert parse("add:4", layout="NHWC", direction="bwd").key == "add:4:f32"


def test_a_transposed_convolution_is_a_plain_one_with_its_roles_exchanged() -> None:
    forward = parse("conv_transpose2d:n8c64h16w16k32y4x4p1q1u2v2")
    geometry = operation(forward).geometry(forward)
    assert (geometry.c, geometry.k, geometry.wanted) == (32, 64, "image")
    assert geometry.axes[1] == Axis(32, 4, 16, 1, 2, 1)
    assert [tensor.shape for tensor in geometry.inputs] == [(8, 64, 16, 16), (64, 32, 4, 4)]


def torch_result(problem: Problem, arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """By automatic differentiation of PyTorch's convolutions, in the problem's own layout."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    kind = operation(problem)
    have = dict(zip(kind.letters, problem.shape, strict=True))
    skipped, last = 3 - kind.spatial, problem.layout == kind.layouts[1]

    def sizes(letters: str) -> list[int]:
        return [have[letter] for letter in letters[skipped:]]

    def tensor(name: str, shape: list[int]) -> Any:
        if name not in arrays:
            return torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        given_ = torch.from_numpy(arrays[name])
        return (given_.movedim(-1, 1) if last else given_).clone().requires_grad_()

    filters = (
        [have["c"], have["k"] // have["g"]]
        if kind.transposed
        else [have["k"], have["c"] // have["g"]]
    )
    x = tensor("x", [have["n"], have["c"], *sizes("dhw")])
    w = tensor("w", [*filters, *sizes("zyx")])
    steps = {
        "stride": sizes("tuv"),
        "padding": sizes("opq"),
        "dilation": sizes("ilj"),
    }
    if kind.transposed:
        steps["output_padding"] = sizes("eab")
    result = getattr(torch.nn.functional, kind.name)(x, w, groups=have["g"], **steps)
    if problem.direction != "fwd":
        dy = torch.from_numpy(arrays["dy"])
        result.backward(dy.movedim(-1, 1) if last else dy)
        result = x.grad if problem.direction == "bwd" else w.grad
    found = result.detach().movedim(1, -1) if last else result.detach()
    return np.asarray(found.numpy())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", [0, 1])
def test_the_reference_is_what_pytorch_computes(shape: str, direction: str, layout: int) -> None:
    layouts = get(shape.partition(":")[0]).layouts  # type: ignore[attr-defined]
    problem = parse(shape, "f64", layout=layouts[layout], direction=direction)
    arrays = draw_inputs(problem, 0)
    np.testing.assert_allclose(
        references(problem, arrays)["out"], torch_result(problem, arrays), atol=1e-11
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "shape", ["n2c32h9w8k64y3x3p1q1", "n1c32h9w8k48y3x3", "n2c64h9w8k64y3x3g2"]
)
def test_a_large_result_is_checked_by_parts(shape: str, layout: str, direction: str) -> None:
    problem = parse(f"conv2d:{shape}", layout=layout, direction=direction)
    kind = operation(problem)
    assert isinstance(kind, Projectable)
    assert kind.can_project(problem)
    checker = Checker(problem, full_reference_flops=0)
    exact = references(problem, draw_inputs(problem, 0))["out"]
    checker.prepare()
    assert not checker.verdict().right
    checker.arrays["out"][...] = exact
    assert checker.verdict().right
    for at in (0, exact.size // 2 + 3, exact.size - 1):
        before = checker.arrays["out"].flat[at]
        checker.arrays["out"].flat[at] += 0.01
        assert not checker.verdict().right
        checker.arrays["out"].flat[at] = before


def test_slack_widens_the_tolerance_and_no_more() -> None:
    for flops in (0.0, 1e9):
        problem = parse("conv2d:n2c32h9w8k64y3x3p1q1")
        checker = Checker(problem, full_reference_flops=flops)
        exact = references(problem, draw_inputs(problem, 0))["out"]
        scale = operation(problem).magnitude(problem, draw_inputs(problem, 0))
        unit = operation(problem).tolerance(problem).factor * 2.0**-23
        checker.prepare()
        rng = np.random.default_rng(0)
        checker.arrays["out"][...] = exact + 1.5 * unit * scale * rng.choice([-1, 1], scale.shape)
        assert not checker.verdict().right
        assert checker.verdict(tolerance_factor=8.0).right


def test_memory_is_counted_with_its_pads() -> None:
    plain = parse("conv2d:n1c1h1w1k1y1x1")
    wide = parse("conv2d:n1c1h1w1k1y1x1p100000q100000u100000v100000")
    assert arrays_bytes(wide) > 1 << 38 > arrays_bytes(plain)
    with pytest.raises(ProblemError, match="larger than any memory"):
        parse(f"conv2d:n1c1h1w1k1y1x1p{'9' * 5000}")
