"""Operations: what can be computed, one file for each family. `parse` turns text into a problem."""

from skipjack.operations.broadcast import is_padded
from skipjack.operations.registry import (
    MEMORY_SHARE,
    arrays_bytes,
    bytes_moved,
    comes_with_skipjack,
    get,
    installed,
    is_known,
    magnitudes,
    names,
    outputs,
    parse,
    references,
    register,
    tensor_dtype,
    tensors,
)

__all__ = [
    "MEMORY_SHARE",
    "arrays_bytes",
    "bytes_moved",
    "comes_with_skipjack",
    "get",
    "installed",
    "is_known",
    "is_padded",
    "magnitudes",
    "names",
    "outputs",
    "parse",
    "references",
    "register",
    "tensor_dtype",
    "tensors",
]
