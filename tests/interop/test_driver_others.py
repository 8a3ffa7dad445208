"""Commands for batch normalisation, matrix products, pooling and everything else."""

import re

import numpy as np
import pytest

from skipjack.core import Problem
from skipjack.errors import ProblemError
from skipjack.interop import Defaults, NotApplicable, parse_driver
from skipjack.operations import get, parse

BNORM = "MIOpenDriver bnorm -n 8 -c 4 -H 6 -W 5 -m 1"
POOL = "MIOpenDriver pool -n 128 -c 64 -H 112 -W 112 -y 3 -x 3 -p 0 -q 0 -u 2 -v 2 -m max -t 1"


def refusals(line: str, defaults: Defaults | None = None) -> list[tuple[str, str]]:
    entries = parse_driver(line, defaults or Defaults())
    assert all(isinstance(entry, NotApplicable) for entry in entries), entries
    return [(e.text, e.reason) for e in entries if isinstance(e, NotApplicable)]


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        ("-F 1", "eps=1e-05/mode=train"),
        ("--forw 1 -b 0 -s 1 -r 1", "eps=1e-05/mode=train"),
        ("-F 2 -b 0 -s 1", "eps=1e-05/mode=infer"),
        ("--forw 0 --back 1", "mode=backward"),
        ("", "eps=1e-05/mode=train"),  # as the driver runs it
        ("-F 2 -b 1", "eps=1e-05/mode=infer"),
    ],
)
def test_batch_normalisation_has_three_modes(flags: str, mode: str) -> None:
    (problem,) = parse_driver(f"{BNORM} {flags}")
    assert isinstance(problem, Problem)
    assert problem.key == f"batchnorm:n8c4h6w5/{mode}:f32"


@pytest.mark.parametrize(("base", "dtype"), [("bnormfp16", "f16"), ("bnormbfp16", "bf16")])
def test_half_precisions_are_problems(base: str, dtype: str) -> None:
    (problem,) = parse_driver(f"{BNORM.replace('bnorm', base)} -F 2")
    assert isinstance(problem, Problem)
    assert problem.key == f"batchnorm:n8c4h6w5/eps=1e-05/mode=infer:{dtype}"


def test_a_command_as_newer_drivers_log_it_is_understood() -> None:
    logged = f"{BNORM} -D 0 --forw 1 -b 0 -s 1 -r 1 --layout NCHW -A 1.0 -B 0. -i 3 -V 0 -t 1"
    assert parse_driver(logged) == parse_driver(f"{BNORM} -F 1")


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (BNORM.replace("bnorm", "bnormbfp16fp32"), "batchnorm:n8c4h6w5{train}:bf16f32", "bf16f32"),
        (f"{BNORM} --layout nhwc", "batchnorm:n8c4h6w5{train}:f32:NHWC", "layout is NHWC"),
        (f"{BNORM} -D 7", "batchnorm:n8c4d7h6w5{train}:f32:NCDHW", "has a depth"),
        (f"{BNORM} -m 0", "batchnorm:n8c4h6w5{train}/spatial=0:f32", "each activation"),
        (f"{BNORM} -f 3", "batchnorm:n8c4h6w5{train}/activ_mode=3:f32", "activ_mode 3"),
    ],
)
def test_other_batch_normalisations_are_not_applicable(line: str, text: str, reason: str) -> None:
    ((found, why),) = refusals(line)
    assert found == text.format(train="/eps=1e-05/mode=train")
    assert reason in why


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("-F 3", "flag -F is 3; it must be from 0 to 2"),
        ("-m 2", "flag -m is 2; it must be from 0 to 1"),
        ("-L NCWH", "layout is 'NCWH'; it must be one of"),
        ("-L NCDHW", "layout NCDHW contradicts in_d 0"),
        ("-k 5", "unknown flag -k"),
    ],
)
def test_a_wrong_flag_of_batch_normalisation_is_named(flags: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        parse_driver(f"{BNORM} {flags}")


def test_defaults_are_for_batch_normalisation_too() -> None:
    ((text, _),) = refusals(BNORM, Defaults(layout="NHWC"))
    assert text.endswith(":NHWC")
    with pytest.raises(ProblemError, match="says f32 but the dtype asked for is f64"):
        parse_driver(BNORM, Defaults(dtype="f64"))


# Pooling


def test_pooling_is_understood_in_both_directions() -> None:
    text = "pool2d:n128c64h112w112y3x3u2v2/mode=max:f32:NCHW"
    reason = "no kernel here computes pooling"
    assert refusals(POOL) == [(f"{text}:fwd", reason), (f"{text}:bwd", reason)]
    assert refusals(f"{POOL} -F 1") == [(f"{text}:fwd", reason)]
    assert refusals(POOL, Defaults(direction="bwd")) == [(f"{text}:bwd", reason)]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("pool -F 1", "pool2d:n100c3h32w32y3x3/mode=max:f32:NCHW:fwd"),
        (
            "poolfp16 -F 1 -m avg_in -p 1 -q 0 -u 2 -v 1 -L nhwc",
            "pool2d:n100c3h32w32y3x3p1u2/mode=avg_in:f16:NHWC:fwd",
        ),
        ("pool -F 1 -z same", "pool2d:n100c3h32w32y3x3p1q1/mode=max:f32:NCHW:fwd"),
        (
            "pool -F 1 --spatial_dim 3 -D 8 -Z 2 -s 2",
            "pool3d:n100c3d8h32w32z2y3x3t2/mode=max:f32:NCDHW:fwd",
        ),
        # Newer drivers: the input in one text, and u is the stride along the width.
        (
            "pool --input 4x8x16x20,NHWC -y 2 -x 3 -v 2 -u 1 -m avg -F 1",
            "pool2d:n4c8h16w20y2x3u2/mode=avg:f32:NHWC:fwd",
        ),
        (
            "pool -W 4x8x6x16x20 -F 1",
            "pool3d:n4c8d6h16w20z3y3x3/mode=max:f32:NCDHW:fwd",
        ),
    ],
)
def test_poolings_have_texts(line: str, text: str) -> None:
    assert [found for found, _ in refusals(f"MIOpenDriver {line}")] == [text]


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        ("-y 115", "the window covers 115 pixels along h, but the padded image has only 112"),
        ("-m min", "flag -m is 'min'; it must be max, avg or avg_in"),
        ("-L NCDHW", "the layout is 'NCDHW'; it must be NCHW or NHWC"),
        ("-g 2", "unknown flag -g"),
        ("-W 4x8", "-n"),
    ],
)
def test_a_wrong_pooling_is_refused(flags: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=complaint):
        parse_driver(f"{POOL} {flags}")


# Everything else


@pytest.mark.parametrize("base", ["lrn", "activfp16", "softmax", "rnn_seq", "reducefp64"])
def test_other_bases_are_not_applicable(base: str) -> None:
    ((text, reason),) = refusals(f"log: ./bin/MIOpenDriver {base}  -n 4 --anything goes")
    assert text == f"MIOpenDriver {base} -n 4 --anything goes"
    assert base in reason


def test_an_unknown_base_is_refused_by_name() -> None:
    with pytest.raises(ProblemError, match="no base 'conf'; did you mean conv"):
        parse_driver("MIOpenDriver conf -n 4")


# Matrix products


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("gemm", "matmul:256x256x256:f32"),
        ("gemm --iter 10 --time 1 --a_w 96 --a_h 32 --b_w 64", "matmul:32x64x96:f32"),
        ("gemmfp16 -F 1 -m 1 -k 1024 -n 4096 -v 1 -V 0 -i 100", "matmul:1x4096x1024/tb=1:f16"),
        ("gemmbfp16 -m 8 -n 4 -k 2 -u 1 --alpha 1.0 --beta 0", "matmul:8x4x2/ta=1:bf16"),
        ("gemm -m 8 -n 4 -k 2 -A 0.5 -B 1 -b 1", "matmul:8x4x2/alpha=0.5/beta=1:f32"),
        ("gemm -m 8 -n 4 -k 2 -b 16", "bmm:16x8x4x2:f32"),
        ("gemm -m 8 -n 4 -k 2 --batchsize 3", "bmm:3x8x4x2:f32"),
        ("gemm -m 8 -n 4 -k 2 --isColMajor 1 -u 1", "matmul:4x8x2/tb=1:f32"),
    ],
)
def test_gemm_is_a_matrix_product(line: str, key: str) -> None:
    assert parse_driver(f"MIOpenDriver {line}") == (parse(key),)


def test_column_major_matrices_are_the_transposed_product_of_the_same_arrays() -> None:
    """A is 3x2 and B 2x4 in column-major order; what is found is the product's own order."""
    (problem,) = parse_driver("MIOpenDriver gemm -m 3 -k 2 -n 4 -C 1")
    assert isinstance(problem, Problem)
    rng = np.random.default_rng(0)
    a, b = rng.random((3, 2)), rng.random((2, 4))
    stored = {"a": b.ravel("F").reshape(4, 2), "b": a.ravel("F").reshape(2, 3)}
    assert [tensor.shape for tensor in get("matmul").inputs(problem)] == [(4, 2), (2, 3)]
    out = get("matmul").reference(problem, stored)
    np.testing.assert_allclose(out.ravel(), (a @ b).ravel("F"))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("gemm -m 0", "flag -m is 0; it must be at least 1"),
        ("gemm --alpha much", "--alpha is 'much'; it must be a finite number"),
        ("gemm -B inf", "--beta is 'inf'; it must be a finite number"),
        ("gemm --a_x 4", "unknown flag --a_x"),
        ("gemmfp64", "no base 'gemmfp64'; did you mean gemmfp16?"),
    ],
)
def test_a_gemm_that_the_driver_refuses_is_a_sentence(line: str, complaint: str) -> None:
    with pytest.raises(ProblemError, match=re.escape(complaint)):
        parse_driver(f"MIOpenDriver {line}")


def test_a_gemm_has_the_dtype_of_its_base() -> None:
    with pytest.raises(ProblemError, match="says f32 but the dtype asked for is f16"):
        parse_driver("MIOpenDriver gemm", Defaults(dtype="f16"))
    lone = parse_driver("MIOpenDriver gemm", Defaults(layout="NHWC", direction="fwd"))
    assert lone == parse_driver("MIOpenDriver gemm")
