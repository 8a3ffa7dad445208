"""Features have names, agree with the operations, and are the same in training and inference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skipjack.core import Config, Device
from skipjack.gpu import describe_gpu
from skipjack.models import (
    MISSING,
    CandidateFeatures,
    arranged,
    candidate_features,
    operation_group,
    problem_feature_names,
    problem_features,
)
from skipjack.native import describe
from skipjack.operations import bytes_moved, get, parse
from skipjack.solvers import EXAMPLE_GPUS, BuildingSolver, all_solvers, refusal, supports_device

CPUS = [describe("haswell/1"), describe("znver4/2")]
GPUS = [describe_gpu(name) for name in EXAMPLE_GPUS]
PROBLEMS = (
    *("matmul:192x100x64", "matmul:1x768x768/tb=1", "matmul:64x64x64/ta=1/beta=1/bias=1/act=relu"),
    *("bmm:4x64x48x32", "matmul:96x96x96:f64", "matmul:512x512x512:f16"),
    "conv2d:n2c32h28w28k64y3x3p1q1",
    "conv2d:n2c32h28w28k64y3x3p1q1u2v2:f32:NHWC:bwd",
    "conv2d:n2c32h28w28k64y3x3p1q1:f32:NCHW:wrw",
    "conv2d:n1c64h14w14k128y1x1",
    "conv2d:n1c32h14w14k32y3x3p1q1g32",
    "conv3d:n1c8d6h12w12k8z3y3x3o1p1q1",
    "conv_transpose2d:n1c16h14w14k16y3x3p1q1u2v2a1b1",
    *("add:100x100", "sum:300x200/axis=0", "softmax:64x1000", "layernorm:32x768"),
    *("batchnorm:n8c16h14w14", "gelu:4096", "relu_backward:100x100"),
)


def applicable(text: str, device: Device) -> list[BuildingSolver]:
    problem = parse(text)
    return [
        solver
        for solver in all_solvers()
        if isinstance(solver, BuildingSolver)
        and supports_device(solver, device)
        and not refusal(solver, problem, device)
    ]


@pytest.mark.parametrize("text", PROBLEMS)
def test_a_problem_has_a_number_for_each_name(text: str) -> None:
    problem = parse(text)
    names = problem_feature_names(problem.operation)
    assert len(set(names)) == len(names)
    for device in (*CPUS, *GPUS):
        values = problem_features(problem, device)
        assert len(values) == len(names)
        assert all(map(math.isfinite, values))


@pytest.mark.parametrize("text", PROBLEMS)
def test_work_and_traffic_are_those_of_the_operation(text: str) -> None:
    problem = parse(text)
    names = problem_feature_names(problem.operation)
    values = dict(zip(names, problem_features(problem, CPUS[0]), strict=True))
    assert values["flops"] == pytest.approx(math.log2(get(problem.operation).flops(problem)))
    # The bias of a product is small, and left out.
    assert values["bytes"] == pytest.approx(math.log2(bytes_moved(problem)), abs=0.02)


@pytest.mark.parametrize("text", PROBLEMS)
def test_each_solvers_candidates_have_named_rows(text: str) -> None:
    problem, rng = parse(text), np.random.default_rng(0)
    found = 0
    for device in (*CPUS, *GPUS):
        for solver in applicable(text, device):
            space = solver.space(problem, device)
            configs = [space.default(), *(space.sample(rng) for _ in range(5))]
            features = CandidateFeatures(problem, device, space)
            rows = features.rows(configs)
            assert rows.shape == (len(configs), len(features.names))
            assert len(set(features.names)) == len(features.names)
            assert np.isfinite(rows).all()
            found += 1
    assert found


@pytest.mark.parametrize("text", PROBLEMS[:8])
def test_rows_of_training_are_rows_of_inference(text: str) -> None:
    """Many at once, one alone, and a config that was read from a ledger give the same numbers."""
    problem, rng = parse(text), np.random.default_rng(1)
    for device in CPUS:
        for solver in applicable(text, device):
            space = solver.space(problem, device)
            configs = [space.sample(rng) for _ in range(4)]
            rows = CandidateFeatures(problem, device, space).rows(configs)
            again = parse(problem.key), Device(**{n: getattr(device, n) for n in Device.__slots__})
            for row, config in zip(rows, configs, strict=True):
                read = Config.from_key(config.key)
                own = solver.space(*again)
                alone = candidate_features(*again, own, read)
                assert np.array_equal(np.array(alone, np.float32), row)


def test_words_are_the_same_numbers_in_every_space() -> None:
    """The index of a word differs between spaces; features must not."""
    device = CPUS[1]
    solver = next(s for s in applicable("matmul:192x100x64", device) if s.name == "packed")
    found = []
    for text in ("matmul:192x100x64", "matmul:640x640x640"):
        space = solver.space(parse(text), device)
        features = CandidateFeatures(parse(text), device, space)
        config = space.default().replace(tile="6x3")
        row = features.rows([config])[0]
        found.append(row[[features.names.index(f"config.tile.{at}") for at in range(3)]].tolist())
    assert found[0] == found[1] == pytest.approx([math.log2(6), math.log2(3), MISSING])


def test_padding_of_a_tile_is_known() -> None:
    problem, device = parse("matmul:100x64x64"), CPUS[0]
    solver = next(s for s in applicable(problem.key, device) if s.name == "packed")
    space = solver.space(problem, device)
    features = CandidateFeatures(problem, device, space)
    row = dict(
        zip(features.names, features.rows([space.default().replace(tile="6x2")])[0], strict=True)
    )
    assert row["padded_rows"] == pytest.approx(math.log2(102 / 100))
    assert row["padded_columns"] == 0.0
    assert row["accumulators"] == pytest.approx(math.log2(12))


def test_columns_are_arranged_by_name() -> None:
    rows = np.array([[1.0, 2.0]], np.float32)
    assert arranged(rows, ("a", "b"), ("b", "c", "a")).tolist() == [[2.0, MISSING, 1.0]]
    assert arranged(rows, ("a", "b"), ("a", "b")) is rows


def test_operations_of_a_kind_share_a_group() -> None:
    assert operation_group("matmul") == operation_group("bmm") == "products"
    assert operation_group("conv2d") == operation_group("conv_transpose3d") == "convolutions"
    assert operation_group("add") == operation_group("gelu") != operation_group("sum")
