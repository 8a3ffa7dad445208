"""Operations: what can be computed, by families. `parse` turns text into a problem."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.operations.attributes import refuse_unknown, require_rank
    from skipjack.operations.batchnorm import BatchNorm
    from skipjack.operations.conv_geometry import OUT, Axis, Geometry, Role, result_size
    from skipjack.operations.convolution import CONVOLUTIONS, DIRECTIONS, Convolution
    from skipjack.operations.elementwise import ELEMENTWISE, Elementwise, is_padded
    from skipjack.operations.error_bounds import ErrorTerms, error_terms, without_overflow
    from skipjack.operations.error_function import ERF, ERF_ONE, Quotient
    from skipjack.operations.matmul import Matmul, MatmulAttributes
    from skipjack.operations.normalization import RowOperation
    from skipjack.operations.reduce import Reduce
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
    "CONVOLUTIONS",
    "DIRECTIONS",
    "ELEMENTWISE",
    "ERF",
    "ERF_ONE",
    "MEMORY_SHARE",
    "OUT",
    "Axis",
    "BatchNorm",
    "Convolution",
    "Elementwise",
    "ErrorTerms",
    "Geometry",
    "Matmul",
    "MatmulAttributes",
    "Quotient",
    "Reduce",
    "Role",
    "RowOperation",
    "arrays_bytes",
    "bytes_moved",
    "comes_with_skipjack",
    "error_terms",
    "get",
    "installed",
    "is_known",
    "is_padded",
    "magnitudes",
    "names",
    "outputs",
    "parse",
    "references",
    "refuse_unknown",
    "register",
    "require_rank",
    "result_size",
    "tensor_dtype",
    "tensors",
    "without_overflow",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "attributes": "refuse_unknown require_rank",
        "batchnorm": "BatchNorm",
        "conv_geometry": "Axis Geometry OUT Role result_size",
        "convolution": "CONVOLUTIONS Convolution DIRECTIONS",
        "elementwise": "ELEMENTWISE Elementwise is_padded",
        "error_bounds": "ErrorTerms error_terms without_overflow",
        "error_function": "ERF ERF_ONE Quotient",
        "matmul": "Matmul MatmulAttributes",
        "normalization": "RowOperation",
        "reduce": "Reduce",
        "registry": (
            "MEMORY_SHARE arrays_bytes bytes_moved comes_with_skipjack get installed is_known "
            "magnitudes names outputs parse references register tensor_dtype tensors"
        ),
    },
)
