"""Bases of commands and the element types that they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.core.dtypes import listed

CONV_DTYPES = {
    "conv": "f32",
    "convfp32": "f32",
    "convfp16": "f16",
    "convbfp16": "bf16",
    "convint8": "i8",
    "convfp8": "f8",
    "convbfp8": "bf8",
}
BATCHNORM_DTYPES = {
    "bnorm": "f32",
    "bnormfp16": "f16",
    "bnormbfp16": "bf16",
    "bnormfp16fp32": "f16f32",
    "bnormbfp16fp32": "bf16f32",
}
POOL_DTYPES = {"pool": "f32", "poolfp16": "f16", "poolbfp16": "bf16"}

_OTHER = (
    *("CAInfer", "CBAInfer", "activ", "adam", "adamw", "addlayernorm", "ampadam", "ampadamw"),
    *("argmax", "cat", "ctc", "dropout", "gemm", "getitem", "glu", "groupnorm", "kthvalue"),
    *("layernorm", "lrn", "multimarginloss", "nllloss", "prelu", "reduce", "reducecalculation"),
    *("reduceextreme", "rnn", "rnn_seq", "rope", "softmarginloss", "softmax", "sum"),
    *("t5layernorm", "tensorop", "transformersadamw", "transformersampadamw"),
)
_PRECISIONS = ("", "fp16", "bfp16", "fp64")
OTHER_BASES = frozenset(base + precision for base in _OTHER for precision in _PRECISIONS)
"""Commands of the driver for which nothing here computes the same."""


def dtype_obstacle(dtype: str, computed: Sequence[str]) -> str | None:
    """Why a dtype cannot be computed, if so; the operation can be in those given."""
    if dtype in computed:
        return None
    return f"it is {dtype}; kernels are {listed(computed, 'or')}"


def base_of(dtype: str, dtypes: Mapping[str, str]) -> str | None:
    """The shortest base of commands in a dtype, if there is one."""
    return min((base for base, of in dtypes.items() if of == dtype), key=len, default=None)
