"""The vector operations of the benchmark: sizes, traffic, and the PyTorch calls they are up to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import torch_calls
from skipjack.core import Array
from skipjack.execute import draw_inputs
from skipjack.execute.verification import judge
from skipjack.operations import bytes_moved, get, outputs
from vector_cases import ALL, FOOTPRINTS, KIB, QUICK, Operation, elements, whole

EACH = pytest.mark.parametrize("operation", ALL, ids=lambda operation: operation.name)


@EACH
def test_whole_arrays_take_about_the_footprint(operation: Operation) -> None:
    for footprint in FOOTPRINTS:
        taken = 4 * operation.arrays * elements(operation.problem(footprint))
        assert 0.7 <= taken / footprint <= 1.3


@EACH
def test_the_probe_fits_the_first_cache(operation: Operation) -> None:
    assert bytes_moved(operation.probe) <= 24 * KIB


@EACH
def test_traffic_is_that_of_all_whole_arrays(operation: Operation) -> None:
    problem = operation.problem(FOOTPRINTS[-1])
    reads, written = whole(problem)
    moved = sum(tensor.size for tensor in (*reads, *([written] if written else [])))
    assert moved == operation.arrays * elements(problem)
    assert 4 * moved <= bytes_moved(problem) <= 4.1 * moved


def test_names_are_their_own_and_quick_is_a_part() -> None:
    assert len({operation.name for operation in ALL}) == len(ALL)
    assert set(QUICK) < set(ALL)


@EACH
def test_pytorch_computes_the_same(operation: Operation) -> None:
    pytest.importorskip("torch")
    problem = operation.problem(64 * KIB)
    arrays: dict[str, Any] = dict(draw_inputs(problem, 0))
    kind = get(problem.operation)
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}
    arrays |= {each.name: np.full(each.shape, np.nan, np.float32) for each in outputs(problem)}
    call = torch_calls.bind(problem, arrays, threads=1)
    assert not isinstance(call, str), call
    unit = kind.tolerance(problem).factor * float(np.finfo(np.float32).eps)
    call()
    result: Array = arrays["out"]
    bound = kind.magnitude(problem, exact) * unit
    verdict = judge(result.astype(np.float64), kind.reference(problem, exact), bound)
    assert verdict.right, verdict.reason


def test_where_pytorch_is_not_installed_that_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert torch_calls.bind(ALL[0].probe, {}, threads=1) == "torch is not installed"
