"""A problem becomes a command, and the command the problem."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from skipjack.core import Problem
from skipjack.errors import ProblemError, UsageError
from skipjack.interop import driver_line, parse_driver
from skipjack.operations import CONVOLUTIONS, Convolution, parse

HALF_OR_WHOLE = ("f32", "f16", "bf16")


@st.composite
def convolutions(draw: st.DrawFn) -> Problem:
    """Small convolutions of every kind; those with an impossible geometry are left out."""
    operation: Convolution = draw(st.sampled_from(CONVOLUTIONS))
    groups = draw(st.integers(1, 3))
    sizes = {letter: draw(st.integers(1, 4)) for letter in operation.letters}
    pads = {letter: draw(st.integers(0, 2)) for letter in "opqeab" if letter in sizes}
    images = {letter: draw(st.integers(3, 20)) for letter in "dhw" if letter in sizes}
    sizes |= pads | images | {"c": sizes["c"] * groups, "k": sizes["k"] * groups, "g": groups}
    key = f"{operation.name}:" + "".join(f"{letter}{size}" for letter, size in sizes.items())
    layout = draw(st.sampled_from(tuple(operation.layouts)))
    direction = draw(st.sampled_from(operation.directions))
    dtype = draw(st.sampled_from(HALF_OR_WHOLE))
    try:
        return parse(key, dtype, layout=layout, direction=direction)
    except ProblemError:
        assume(False)
        raise


@given(convolutions())
def test_a_convolutions_command_means_that_convolution(problem: Problem) -> None:
    assert parse_driver(driver_line(problem)) == (problem,)


@given(
    st.tuples(*(st.integers(1, 300) for _ in "nchw")),
    st.sampled_from(["train", "infer", "backward"]),
    st.sampled_from(HALF_OR_WHOLE),
)
def test_a_batch_normalisations_command_means_that_one(
    shape: tuple[int, ...], mode: str, dtype: str
) -> None:
    sizes = "".join(f"{letter}{size}" for letter, size in zip("nchw", shape, strict=True))
    problem = parse(f"batchnorm:{sizes}/mode={mode}", dtype)
    assert parse_driver(driver_line(problem)) == (problem,)


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (
            "conv2d:n1c64h56w56k64y3x3p1q1",
            "conv -n 1 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 "
            "-m conv -g 1 -F 1 -t 1",
        ),
        (
            "conv2d:n1c4h5w6k8y1x1g2:f32:NHWC:wrw",
            "conv -n 1 -c 4 -H 5 -W 6 -k 8 -y 1 -x 1 -p 0 -q 0 -u 1 -v 1 -l 1 -j 1 -m conv -g 2 "
            "--in_layout NHWC --fil_layout NHWC --out_layout NHWC -F 4 -t 1",
        ),
        (
            "conv_transpose3d:n1c4d3h5w6k8z1y1x1t2a1l2:f32:NCDHW:bwd",
            "conv -n 1 -c 4 --in_d 3 -H 5 -W 6 -k 8 --fil_d 1 -y 1 -x 1 --pad_d 0 -p 0 -q 0 "
            "--conv_stride_d 2 -u 1 -v 1 --dilation_d 1 -l 2 -j 1 --trans_output_pad_d 0 -Y 1 -X 0 "
            "--spatial_dim 3 -m trans -g 1 -F 2 -t 1",
        ),
        (
            "batchnorm:n8c4h6w5/mode=backward",
            "bnorm -n 8 -c 4 -H 6 -W 5 -m 1 -F 0 -b 1 -s 1 -r 0 -t 1",
        ),
        (
            "batchnorm:n8c4h6w5/mode=infer:bf16",
            "bnormbfp16 -n 8 -c 4 -H 6 -W 5 -m 1 -F 2 -b 0 -s 0 -r 1 -t 1",
        ),
    ],
)
def test_commands_look_like_the_drivers_own_log(key: str, line: str) -> None:
    assert driver_line(parse(key)) == f"MIOpenDriver {line}"


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("matmul:8x8x8", "no command for matmul:8x8x8:f32"),
        ("conv2d:n1c1h3w3k1y1x1:f64", "no command in f64 for conv2d"),
        ("conv2d:n1c1h3w3k1y1x1:tf32", "no command in tf32 for conv2d"),
        ("batchnorm:c4/eps=0.5", "no flag for the eps"),
        ("batchnorm:c4/momentum=0.5", "no flag for the eps or momentum"),
        ("batchnorm:c4/mode=infer_backward", "no command"),
    ],
)
def test_what_the_driver_cannot_run_is_refused(key: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        driver_line(parse(key))


WORDS = st.sampled_from(
    (
        *("MIOpenDriver", "./bin/MIOpenDriver", "conv", "convfp16", "bnorm", "pool", "lrn", "conf"),
        *("-n", "-c", "-H", "-W", "-k", "-y", "-x", "-p", "-u", "-g", "-F", "-m", "-z", "-_", "-!"),
        *("--in_layout", "--layout", "--input", "--nothing", "--in_h=3", "-", "--", "=", "#", "'"),
        *("1", "2", "3", "0", "-1", "7", "x", "trans", "max", "same", "NHWC", "4x3x2x1", "9" * 30),
    )
)


@given(st.lists(WORDS | st.text(max_size=4), max_size=12))
def test_any_text_is_understood_or_refused_in_one_sentence(words: list[str]) -> None:
    try:
        entries = parse_driver(" ".join(words))
    except UsageError as error:
        assert str(error)
    else:
        assert entries
