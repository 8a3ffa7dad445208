"""From LLVM IR text to object code: the last step of every solver here."""

from __future__ import annotations

from skipjack.native import llvm
from skipjack.solvers.solver import Blob, Source


def compile_source(source: Source) -> Blob:
    """Object code of LLVM IR text."""
    data = llvm.compile_object(source.text, source.target)
    return Blob(data, source.symbol, resources={"object_bytes": float(len(data))})
