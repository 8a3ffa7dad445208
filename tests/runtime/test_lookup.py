"""Banked kernels without tuning, bound kernels, and machine code that went missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import skipjack
from skipjack.errors import UsageError
from verdicts import agrees

KEY = "matmul:24x40x17"


@pytest.fixture
def banked(user_dir: Path) -> skipjack.TuneResult:
    """A result that is in the bank: the winner, or the first proposal where nothing beats it."""
    result = skipjack.tune(KEY, budget=6)
    assert agrees(result.to_json()) and result.status != "vendor", result.reason
    return result


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((24, 17), np.float32), rng.random((17, 40), np.float32)


def test_what_is_banked_is_found_without_tuning(banked: skipjack.TuneResult) -> None:
    kernel = skipjack.lookup(KEY)
    assert kernel is not None
    a, b = arrays()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)
    assert KEY in repr(kernel)


def test_what_is_not_banked_is_none(banked: skipjack.TuneResult) -> None:
    assert skipjack.lookup("matmul:24x40x18", strict=True) is None


def test_lost_machine_code_is_compiled_again(banked: skipjack.TuneResult, user_dir: Path) -> None:
    shutil.rmtree(user_dir / "artifacts")
    kernel = skipjack.lookup(KEY)
    assert kernel is not None
    a, b = arrays()
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5)


@pytest.mark.parametrize("damage", ["remove", "truncate"])
def test_a_study_goes_on_after_its_machine_code_was_lost(
    banked: skipjack.TuneResult, user_dir: Path, damage: str
) -> None:
    for path in (user_dir / "artifacts").rglob("*"):
        if path.is_file() and damage == "remove":
            path.unlink()
        elif path.is_file():
            path.write_bytes(path.read_bytes()[:100])
    again = skipjack.tune(KEY, budget=2)
    met = again.status == "kept" or again.speedup.default.low > 1.0
    assert met, again.reason
    a, b = arrays()
    np.testing.assert_allclose(again.kernel()(a, b), a @ b, rtol=1e-5)


def test_a_bound_kernel_computes_with_what_its_inputs_hold_now(
    banked: skipjack.TuneResult,
) -> None:
    a, b = arrays()
    out = np.zeros((24, 40), np.float32)
    call = banked.kernel().bind(a, b, out=out)
    a *= 2
    assert call() is out
    np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_wrong_arrays_are_named(banked: skipjack.TuneResult) -> None:
    kernel = banked.kernel()
    a, b = arrays()
    with pytest.raises(UsageError, match=r"a must be a NumPy array, .*, not list"):
        kernel(a.tolist(), b)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=">f4"):
        kernel(a.astype(">f4"), b)
