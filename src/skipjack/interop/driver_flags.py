"""MIOpenDriver's bases and flags as data, and the values that a command gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

from skipjack.core import excerpt, listed
from skipjack.errors import ProblemError

# MIOpenDriver's bases and flags as data: the element type of each base, and a table of flags for
# each base that is supported.
#
# Every flag has a long name, a letter and a default, as in the driver. Its *use* determines how it
# is read:
#
# - a *number* or a *word* is part of the problem;
# - a *plain* flag is part of the problem, too, but only its default is supported;
# - an *unread* flag controls the driver (how often it runs, whether it times or verifies).

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
"""Bases of the driver without an equivalent operation in Skipjack."""

Use = Literal["number", "word", "plain", "unread"]


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag; `aliases` are its long names in older drivers."""

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
    # The driver has only the forward direction.
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
    # In newer drivers the letters of height and width are swapped.
    _size("pool_stride_h", "v", 1, "pool_stride_0"),
    _size("pool_stride_w", "u", 1, "pool_stride_1"),
    *_WINDOW,
    *_unread(dinput="D", output="O", doutput="H", out_data="k"),
)
"""Flags of pooling in newer drivers: the input is one word, ``-W 100x3x32x32,NCHW``."""


def dtype_obstacle(dtype: str, computed: Sequence[str]) -> str | None:
    """The reason why an operation cannot be computed in a dtype, or None."""
    if dtype in computed:
        return None
    return f"its dtype is {dtype}; kernels support {listed(computed, 'or')}"


def base_of(dtype: str, dtypes: Mapping[str, str]) -> str | None:
    """The shortest base of commands in a dtype, or None."""
    return min((base for base, of in dtypes.items() if of == dtype), key=len, default=None)


# The values of a command's flags, checked against a table of flags.

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
"""A number with more digits would exceed any memory."""


@dataclass(frozen=True, slots=True)
class _FlagValue:
    """A value, with the spelling of the flag before it."""

    spelling: str
    value: str


@dataclass(frozen=True, slots=True)
class Values:
    """The values of a command by the long names of flags, with defaults for missing flags."""

    flags: Mapping[str, Flag]
    explicit: Mapping[str, _FlagValue]
    where: str
    """The command, for messages."""

    def is_set(self, name: str) -> bool:
        """Whether the command sets this flag."""
        return name in self.explicit

    def word(self, name: str) -> str:
        """The value of a flag as text."""
        return self.explicit[name].value if name in self.explicit else self.flags[name].default

    def number(self, name: str, *, most: int | None = None) -> int:
        """The value of a flag as an integer; `ProblemError` if it is out of range."""
        value, least = int(self.word(name)), self.flags[name].least
        if value < least or (most is not None and value > most):
            limits = f"at least {least}" if most is None else f"from {least} to {most}"
            raise ProblemError(f"{self._at(name)} is {value}; it must be {limits}")
        return value

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """The value of a flag; `ProblemError` unless it is one of `choices`."""
        value = self.word(name)
        if value not in choices:
            *some, last = choices
            raise ProblemError(
                f"{self._at(name)} is {excerpt(value)!r}; it must be {', '.join(some)} or {last}"
            )
        return value

    def unusual(self) -> tuple[tuple[str, str], ...]:
        """Flags with the use ``plain`` whose values differ from the default."""
        return tuple(
            (name, explicit.value)
            for name, explicit in sorted(self.explicit.items())
            if self.flags[name].use == "plain" and explicit.value != self.flags[name].default
        )

    def obstacles(self) -> tuple[str, ...]:
        """Reasons why no kernel computes the problem, one for each such flag."""
        return tuple(f"kernels do not support --{name} {value}" for name, value in self.unusual())

    def _at(self, name: str) -> str:
        flag = self.explicit[name].spelling if name in self.explicit else f"--{name}"
        return f"command {self.where!r}: flag {flag}"


def read_values(words: Sequence[str], table: Sequence[Flag], where: str) -> Values:
    """Pair flags with their values. If a flag is repeated, by its long name or its letter, the last
    value counts, as in the driver."""
    known = _spellings(table)
    explicit: dict[str, _FlagValue] = {}
    at = 0
    while at < len(words):
        flag = _find(words[at], known, where)
        if at + 1 == len(words) or words[at + 1] in known:
            raise ProblemError(
                f"command {where!r}: flag {words[at]} has no value; write one after it"
            )
        explicit[flag.name] = _FlagValue(words[at], _checked(flag, words[at], words[at + 1], where))
        at += 2
    return Values({flag.name: flag for flag in table}, explicit, where)


_known: dict[int, tuple[Sequence[Flag], dict[str, Flag]]] = {}
"""By the identity of a table, which is kept alive: hashing a table would be slow."""


def _spellings(table: Sequence[Flag]) -> dict[str, Flag]:
    if id(table) not in _known:
        _known[id(table)] = table, spellings(table)
    return _known[id(table)][1]


def spellings(table: Sequence[Flag]) -> dict[str, Flag]:
    """All spellings of the flags of a table."""
    letters = {f"-{flag.letter}": flag for flag in table}
    names = {f"--{name}": flag for flag in table for name in (flag.name, *flag.aliases)}
    return letters | names


def _find(word: str, spellings: Mapping[str, Flag], where: str) -> Flag:
    if word in spellings:
        return spellings[word]
    name, equals, value = word.partition("=")
    if equals and name in spellings:
        raise ProblemError(
            f"command {where!r}: {excerpt(word)} is one word; write two: {name} {excerpt(value)}"
        )
    if not word.startswith("-"):
        raise ProblemError(
            f"command {where!r}: {excerpt(word)!r} is where a flag should be; "
            "every flag has one value"
        )
    close = get_close_matches(excerpt(word), spellings, 1)
    hint = f"; did you mean {close[0]}?" if close and len(word) > 2 else ""
    raise ProblemError(f"command {where!r}: unknown flag {excerpt(word)}{hint}")


def _checked(flag: Flag, spelling: str, value: str, where: str) -> str:
    if flag.use == "number" and not _WHOLE.fullmatch(value):
        raise ProblemError(
            f"command {where!r}: flag {spelling} is {excerpt(value)!r}; it must be an integer"
        )
    return value
