"""The GPU benchmark's arithmetic and tables, on made-up results."""

import json
from pathlib import Path
from typing import Any

import pytest

import gpu_summary
import gpu_tables


def result(problem: str, ours: float, library: float | None) -> dict[str, Any]:
    vendors = {} if library is None else {"cublas": library}
    ratio = (
        {"ratio": library / ours, "low": library / ours, "high": library / ours}
        if library
        else None
    )
    return {
        "problem": problem,
        "solver": "triton_matmul",
        "config": {"tile": 64},
        "time_ns": ours,
        "vendors_ns": vendors,
        "speedups": {"cublas": ratio} if ratio else {},
        "rate": 1.0,
        "rate_unit": "GFLOP/s",
        "trials": 16,
        "failed": 0,
        "status": "banked",
        "solvers": [],
        "reason": "",
    }


LINES = [
    gpu_summary.line(result("matmul:64x64x64:f16", 1000.0, 2000.0)),
    gpu_summary.line(result("matmul:64x64x64:bf16", 2000.0, 1000.0)),
    gpu_summary.line(result("matmul:8x8x8/tb=1:f16", 1000.0, None)),
]


def test_losses_stand_beside_the_wins() -> None:
    means = gpu_summary.means(LINES)
    assert means["problems"] == 2, "what has no comparison does not count"
    assert means["ours_over_library"] == 1.0
    assert means["find_over_library"] == pytest.approx(2**0.5, abs=1e-4)
    assert (means["ours_faster"], means["lost"], means["least"], means["most"]) == (1, 1, 0.5, 2.0)
    assert gpu_summary.means([]) == {"problems": 0}


def test_tables_show_every_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_summary, "RESULTS", tmp_path)
    machine = tmp_path / "machine.json"
    machine.write_text(
        json.dumps({"gpu": "a GPU", "date": "2026-01-01", "versions": {"torch": "2"}})
    )
    gpu_summary.write_results(LINES, "matmul", machine)
    found = json.loads((tmp_path / "gpu_matmul_h200.json").read_text())
    assert found["name"] == "gpu_matmul" and found["gpu"] == "a GPU"
    text = gpu_tables.means(found)
    assert "| **all** | 2 | 1.000 | 1.414 | 1 | 1 | 0.50 | 2.00 |" in text
    assert "`matmul:8x8x8/tb=1:f16`" in text, "what could not be compared is named"
    products = gpu_tables.products(found)
    assert "| 64x64x64 | 2.0 µs | 1.0 µs | 2.00 [2.00, 2.00] | 0.50 [0.50, 0.50] |" in products
    assert "| 8x8x8/tb=1 |" in products


def test_what_other_scripts_found_is_kept_with_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_summary, "RESULTS", tmp_path)
    (tmp_path / "machine.json").write_text(
        json.dumps({"gpu": "a GPU", "date": "d", "versions": {}})
    )
    gpu_summary.keep_beside("gpu_compile", tmp_path / "none.json", tmp_path / "machine.json")
    assert not (tmp_path / "gpu_compile_h200.json").exists()
    line = {
        "problem": "gelu:8x8:f16",
        "gb_per_s": {"ours": 4000.0},
        "over_copy": {"ratio": 0.97},
        "over_compile": {"ratio": 1.5, "low": 1.4, "high": 1.6},
    }
    (tmp_path / "c.json").write_text(
        json.dumps({"problems": [line], "missed": {"relu:8x8:f16": ""}})
    )
    gpu_summary.keep_beside("gpu_compile", tmp_path / "c.json", tmp_path / "machine.json")
    found = json.loads((tmp_path / "gpu_compile_h200.json").read_text())
    text = gpu_tables.vectors(found)
    assert "| `gelu:8x8:f16` | 4000 | 0.97 | 1.50 [1.40, 1.60] |" in text
    assert "Not measured: `relu:8x8:f16`." in text
