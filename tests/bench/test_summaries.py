"""From measured ratios to what the benchmark says about them."""

from __future__ import annotations

from typing import Any

import matmul_summary
import thread_tables
import vector_summary
from roofline import ARITHMETIC, TRAFFIC, bound, shared_out
from skipjack.core import Device
from skipjack.execute import Block
from stand import FORK, Rounds

MIB = 1 << 20


def ratio(value: float) -> dict[str, float]:
    """A ratio known exactly."""
    return {"ratio": value, "low": value, "high": value, "pairs": 9}


def rounds(**times_ns: float) -> Rounds:
    """Nine quiet rounds in which every kernel took the same time."""
    blocks = {
        name: [Block(0, number, 1, (time,), (1.0, 1.0), False) for number in range(9)]
        for name, time in times_ns.items()
    }
    return Rounds(blocks, 9, 9, 1)


def vector_case(operation: str, footprint: int, roofline: float, torch: float) -> dict[str, Any]:
    return {
        "operation": operation,
        "footprint": footprint,
        "bytes": footprint,
        "roofline": {"by": TRAFFIC, **ratio(roofline)},
        "ratios": {"numpy": ratio(2.0), "torch": ratio(torch)},
        "called_ratios": {"numpy": ratio(1.5), "torch": ratio(1.0)},
        "torch_call": f"torch.{operation}(x)",
    }


def product(shape: str, numpy: float, mkl: float) -> dict[str, Any]:
    return {
        "kind": "odd",
        "shape": shape,
        "origin": "",
        "contenders": {"ours": {"gflops": 90.0}, "mkl": {"gflops": 80.0}},
        "ratios": {"numpy": ratio(numpy), "mkl": ratio(mkl)},
        "roofline": {"by": ARITHMETIC, **ratio(0.9)},
    }


def with_head(summary: dict[str, Any], **cases: Any) -> dict[str, Any]:
    """A result file's record."""
    device = {"name": "x/2", "model": "X", "cores": 2, "core_used": "0, 1"}
    head = {"device": device, "versions": {}, "date": "2026-01-01", "settings": {"threads": 2}}
    return {**head, "summary": summary, **cases}


def test_the_roofline_is_the_larger_of_traffic_and_arithmetic() -> None:
    timed = rounds(ours=100.0, move=80.0, probe=9.0)
    assert bound(timed, "ours", {"move": 1.0}, {"probe": 10.0}, []).by == ARITHMETIC
    slower = bound(timed, "ours", {"move": 1.0}, {"probe": 5.0}, [])
    assert (slower.by, round(slower.share.ratio, 6)) == (TRAFFIC, 0.8)


def test_the_fastest_way_to_move_data_counts() -> None:
    timed = rounds(ours=100.0, slow=95.0, fast=50.0)
    found = bound(timed, "ours", {"slow": 1.0, "fast": 1.0}, {}, [])
    assert round(found.share.ratio, 6) == 0.5


def test_a_rival_beyond_the_roofline_raises_it() -> None:
    timed = rounds(ours=100.0, move=90.0, torch=60.0)
    found = bound(timed, "ours", {"move": 1.0}, {}, ["torch"])
    assert (found.by, round(found.share.ratio, 6)) == ("torch", 0.6)


def test_work_is_shared_out_only_where_that_pays() -> None:
    timed = rounds(probe=100.0, **{FORK: 200.0})
    assert shared_out(timed, "probe", 100.0, 2) == 52.0
    assert shared_out(timed, "probe", 1.0, 2) == 1.0


def test_vector_cases_under_a_target_are_listed_worst_first() -> None:
    device = Device("cpu", "x", 1, caches=(("L2", MIB),))
    cases = [
        vector_case("add", MIB, 0.85, 0.95),
        vector_case("add", 8 * MIB, 0.85, 0.7),
        vector_case("exp", MIB, 0.5, 1.5),
    ]
    under = vector_summary.summarize(cases, device)["under"]
    assert [case["case"] for case in under["torch"]] == ["add at 8 MiB", "add at 1 MiB"]
    # Inside of the second cache 0.85 of the roofline is enough, beyond it is not.
    assert [case["case"] for case in under["roofline"]] == ["exp at 1 MiB", "add at 8 MiB"]
    assert under["numpy"] == []


def test_products_are_judged_by_the_better_library() -> None:
    summary = matmul_summary.summarize([product("1_2_3", 0.8, 1.2), product("4_5_6", 1.1, 1.0)])
    assert summary["under"] == [{"shape": "1_2_3", "ratio": 0.8}]
    assert round(summary["all"][matmul_summary.BEST]["geomean"], 3) == round(0.8**0.5, 3)


def test_a_shape_without_a_kernel_is_left_out() -> None:
    empty = {**product("1_2_3", 1.0, 1.0), "ratios": {}, "roofline": None}
    summary = matmul_summary.summarize([empty, product("4_5_6", 1.1, 1.0)])
    assert summary["all"]["mkl"]["shapes"] == 1


def test_tables_hold_every_case_and_every_loss() -> None:
    cases = [vector_case("add", 8 * MIB, 0.85, 0.7), vector_case("exp", 8 * MIB, 1.0, 1.5)]
    summary = vector_summary.summarize(cases, Device("cpu", "x", 2))
    result = with_head(summary, cases=cases)
    assert "| `add` | 85%; 2.00; 0.70 | `torch.add(x)` |" in thread_tables.vector_operations(result)
    assert '"PyTorch": add at 8 MiB (0.70).' in thread_tables.vector_summary(result)


def test_the_table_of_products_names_the_better_library() -> None:
    shapes = [product("1_2_3", 0.8, 1.2)]
    result = with_head(matmul_summary.summarize(shapes), shapes=shapes)
    row = "| 1_2_3 | odd sizes | 90.0 | - | - | 80.0 | - | 0.80 [0.80, 0.80] (NumPy) |"
    assert row in thread_tables.products_shapes(result)
    assert "better of NumPy and MKL: 1_2_3 (0.80)." in thread_tables.products_summary(result)
