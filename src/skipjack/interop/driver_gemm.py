"""Matrix products: from a command's values to a problem."""

from __future__ import annotations

from math import isfinite

from skipjack.core.problem import shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import Defaults, refuse_other
from skipjack.interop.driver_flags import GEMM_DTYPES
from skipjack.interop.driver_values import Values
from skipjack.interop.not_applicable import Entry
from skipjack.operations import parse


def read_gemm(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """The one problem of a command: ``matmul``, or ``bmm`` where it has a batch.

    In column-major order the arrays of ``C = A B`` are those of ``C' = B' A'`` in ours: operands
    change places, and so do the sizes of C.
    """
    dtype = GEMM_DTYPES[base]
    refuse_other("dtype", dtype, defaults.dtype, values.where)
    m, k, n = (values.number(name) for name in ("a_h", "a_w", "b_w"))
    ta, tb = (values.number(name) != 0 for name in ("transA", "transB"))
    if values.number("isColMajor"):
        m, n, ta, tb = n, m, tb, ta
    batch = values.number("batch_count")
    attributes = "".join(
        (
            "/ta=1" if ta else "",
            "/tb=1" if tb else "",
            *(f"/{name}={_factor(values, name)!r}" for name in ("alpha", "beta")),
        )
    )
    shape = f"matmul:{m}x{n}x{k}" if batch == 1 else f"bmm:{batch}x{m}x{n}x{k}"
    try:
        return (parse(f"{shape}{attributes}", dtype),)
    except ProblemError as error:
        raise ProblemError(f"command {values.where!r}: {error}") from None


def _factor(values: Values, name: str) -> float:
    text = values.word(name)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ProblemError(
            f"command {values.where!r}: flag --{name} wants a finite number, "
            f"{shown(text)!r} is none"
        )
    return value
