"""MIOpenDriver's bases and flags as data: the element type of each base, and one table of flags for
each that is read.

Every flag has a long name, a letter and a default, which are the driver's own. What it is *for*
decides how it is read:

- a number or a word is part of the problem;
- a *plain* one is part of the problem too, but only its default can be computed here;
- an *unread* one says how the driver runs (how often, whether it times or verifies).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

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
GEMM_DTYPES = {"gemm": "f32", "gemmfp16": "f16", "gemmbfp16": "bf16"}
POOL_DTYPES = {"pool": "f32", "poolfp16": "f16", "poolbfp16": "bf16"}

_OTHER = (
    *("CAInfer", "CBAInfer", "activ", "adam", "adamw", "addlayernorm", "ampadam", "ampadamw"),
    *("argmax", "cat", "ctc", "dropout", "getitem", "glu", "groupnorm", "kthvalue"),
    *("layernorm", "lrn", "multimarginloss", "nllloss", "prelu", "reduce", "reducecalculation"),
    *("reduceextreme", "rnn", "rnn_seq", "rope", "softmarginloss", "softmax", "sum"),
    *("t5layernorm", "tensorop", "transformersadamw", "transformersampadamw"),
)
_PRECISIONS = ("", "fp16", "bfp16", "fp64")
OTHER_BASES = frozenset(base + precision for base in _OTHER for precision in _PRECISIONS)
"""Commands of the driver for which nothing here computes the same."""

Use = Literal["number", "word", "plain", "unread"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; `aliases` are long names that older drivers had for it."""

    name: str
    letter: str
    default: str
    use: Use = "unread"
    least: int = 0
    aliases: tuple[str, ...] = ()


def _size(name: str, letter: str, default: int, *aliases: str) -> Flag:
    return Flag(name, letter, str(default), "number", 1, aliases)


def _count(name: str, letter: str, default: int = 0) -> Flag:
    return Flag(name, letter, str(default), "number")


def _word(name: str, letter: str, default: str = "") -> Flag:
    return Flag(name, letter, default, "word")


def _plain(name: str, letter: str, default: str) -> Flag:
    return Flag(name, letter, default, "plain")


def _unread(**letters: str) -> tuple[Flag, ...]:
    return tuple(Flag(name, letter, "") for name, letter in letters.items())


CONV = (
    _size("batchsize", "n", 100),
    _size("in_channels", "c", 3),
    _size("in_d", "!", 32),
    _size("in_h", "H", 32),
    _size("in_w", "W", 32),
    _size("out_channels", "k", 32),
    _size("fil_d", "@", 3),
    _size("fil_h", "y", 3),
    _size("fil_w", "x", 3),
    _count("pad_d", "$"),
    _count("pad_h", "p"),
    _count("pad_w", "q"),
    _size("conv_stride_d", "#", 1),
    _size("conv_stride_h", "u", 1, "conv_stride_0"),
    _size("conv_stride_w", "v", 1, "conv_stride_1"),
    _size("dilation_d", "^", 1),
    _size("dilation_h", "l", 1),
    _size("dilation_w", "j", 1),
    _count("trans_output_pad_d", "%"),
    _count("trans_output_pad_h", "Y"),
    _count("trans_output_pad_w", "X"),
    _count("group_count", "g", 1),
    _count("spatial_dim", "_", 2),
    _word("mode", "m", "conv"),
    _word("pad_mode", "z", "default"),
    _count("forw", "F"),
    _word("in_layout", "I"),
    _word("fil_layout", "f"),
    _word("out_layout", "O"),
    _plain("pad_val", "r", "0"),
    _plain("tensor_vect", "Z", "0"),
    _plain("vector_length", "L", "1"),
    _plain("in_cast_type", "U", "-1"),
    _plain("wei_cast_type", "R", "-1"),
    _plain("out_cast_type", "T", "-1"),
    *_unread(
        bias="b", iter="i", time="t", wall="w", search="s", verify="V", verification_cache="C"
    ),
    *_unread(solution="S", printconv="P", dump_output="o", in_data="d", weights="e", in_bias="a"),
    *_unread(dout_data="D", gpualloc="G", gpubuffer_check="~", init_output_nan="N"),
    *_unread(tuning_policy="&", math_type="M", use_hip_graph="J"),
)

BATCHNORM = (
    _size("batchsize", "n", 32),
    _size("in_channels", "c", 3),
    _count("in_d", "D"),
    _size("in_h", "H", 32),
    _size("in_w", "W", 32),
    _word("layout", "L"),
    _count("forw", "F"),
    _count("back", "b"),
    _count("mode", "m"),
    _plain("activ_mode", "f", "0"),
    _plain("inverse_variance", "I", "0"),
    *_unread(alpha="A", beta="B", save="s", run="r", ping_pong_buffers="Q"),
    *_unread(iter="i", time="t", wall="w", solution="S", verify="V", printconv="P"),
    *_unread(activ_alpha="x", activ_beta="y", gpubuffer_check="~", tuning_policy="&"),
    *_unread(use_hip_graph="J"),
)

GEMM = (
    _size("batch_count", "b", 1, "batchsize"),
    _size("a_h", "m", 256),
    _size("a_w", "k", 256),
    _size("b_w", "n", 256),
    _count("transA", "u"),
    _count("transB", "v"),
    _count("isColMajor", "C"),
    _word("alpha", "A", "1"),
    _word("beta", "B", "0"),
    # Forward is all that there is.
    *_unread(forw="F", iter="i", verify="V", time="t"),
)

_WINDOW = (
    _size("win_d", "Z", 3),
    _size("win_h", "y", 3),
    _size("win_w", "x", 3),
    _count("pad_d", "o"),
    _count("pad_h", "p"),
    _count("pad_w", "q"),
    _word("mode", "m", "max"),
    _word("pad_mode", "z", "default"),
    _count("forw", "F"),
    _plain("pad_val", "r", "0"),
    *_unread(index_position="M", index_type="I", iter="i", time="t", wall="w", verify="V"),
    *_unread(print="P", in_data="j", dump_root="l", mt="U"),
)

POOL = (
    _size("batchsize", "n", 100),
    _size("in_channels", "c", 3),
    _size("in_d", "D", 32),
    _size("in_h", "H", 32),
    _size("in_w", "W", 32),
    _count("spatial_dim", "_", 2),
    _word("in_layout", "L"),
    _size("pool_stride_d", "s", 1),
    _size("pool_stride_h", "u", 1, "pool_stride_0"),
    _size("pool_stride_w", "v", 1, "pool_stride_1"),
    *_WINDOW,
    *_unread(out_channels="k"),
)

POOL_BY_TENSOR = (
    _word("input", "W", "100x3x32x32,NCHW"),
    _size("pool_stride_d", "s", 1),
    # The other way round than above: as newer drivers have it.
    _size("pool_stride_h", "v", 1, "pool_stride_0"),
    _size("pool_stride_w", "u", 1, "pool_stride_1"),
    *_WINDOW,
    *_unread(dinput="D", output="O", doutput="H", out_data="k"),
)
"""Pooling as newer drivers take it: the input is one text, ``-W 100x3x32x32,NCHW``."""


def dtype_obstacle(dtype: str, computed: Sequence[str]) -> str | None:
    """Why a dtype cannot be computed, if so; the operation can be in those given."""
    if dtype in computed:
        return None
    return f"it is {dtype}; kernels are {listed(computed, 'or')}"


def base_of(dtype: str, dtypes: Mapping[str, str]) -> str | None:
    """The shortest base of commands in a dtype, if there is one."""
    return min((base for base, of in dtypes.items() if of == dtype), key=len, default=None)
