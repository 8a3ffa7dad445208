"""Bank entries, made and drawn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipjack.bank import Bank, BankEntry

MakeEntry = Callable[..., BankEntry]


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    (tmp_path / "bank").mkdir()
    return Bank.open(tmp_path / "bank")


@pytest.fixture
def entry() -> MakeEntry:
    def make(problem: str = "matmul:8x8x8:f32", **changes: Any) -> BankEntry:
        fields: dict[str, Any] = {
            "problem": problem,
            "device": "cpu:znver4/1:abc",
            "device_name": "znver4/1",
            "solver": "loops",
            "solver_version": 1,
            "config": {"tile": 8, "order": "ikj"},
            "time_ns": 100.5,
            "default_ns": 150.75,
            "vendor_ns": 120.0,
            "vendor": "openblas",
            "speedup": {
                "default": {"ratio": 1.5, "low": 1.4, "high": 1.6},
                "vendor": {"ratio": 1.2, "low": 1.1, "high": 1.3},
            },
            "evidence": {"alpha": 0.01, "ties": [], "study": "0123456789abcdef"},
            "created": "2025-01-01T00:00:00.000000Z",
        }
        return BankEntry(**{**fields, **changes})

    return make
