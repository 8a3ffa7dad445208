"""Element types: what they say is what NumPy stores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from skipjack.core import CPU_DTYPES, DTYPES, listed, numpy_dtype


@pytest.mark.parametrize("name", DTYPES)
def test_a_type_says_what_its_arrays_are(name: str) -> None:
    dtype, storage = DTYPES[name], numpy_dtype(name)
    limits = ml_dtypes.finfo(storage)  # type: ignore[no-untyped-call]
    assert dtype.bytes == storage.itemsize
    assert dtype.eps == float(limits.eps)
    assert dtype.smallest == float(limits.smallest_subnormal)


def test_narrow_types_are_those_that_round_when_they_store() -> None:
    narrow = [name for name, dtype in DTYPES.items() if dtype.is_narrow]
    assert narrow == ["f16", "bf16", "f8e4m3", "f8e5m2"]
    assert set(CPU_DTYPES) < set(DTYPES)
    assert numpy_dtype("tf32") == np.float32


def test_names_are_listed_as_one_says_them() -> None:
    assert listed(("f32",)) == "f32"
    assert listed(("f32", "f64")) == "f32 and f64"
    assert listed(("f32", "f64", "f16"), "or") == "f32, f64 or f16"
