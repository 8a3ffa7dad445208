"""Commands of MIOpenDriver as problems, and problems as commands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite

from skipjack.core import Problem, excerpt
from skipjack.errors import ProblemError
from skipjack.interop import driver_conv
from skipjack.interop.driver_conv import pool_flags, read_conv, read_pool
from skipjack.interop.driver_flags import (
    BATCHNORM,
    BATCHNORM_DTYPES,
    CONV,
    CONV_DTYPES,
    GEMM,
    GEMM_DTYPES,
    OTHER_BASES,
    POOL_DTYPES,
    Flag,
    Values,
    base_of,
    dtype_obstacle,
    read_values,
)
from skipjack.interop.problem_entry import (
    NO_DEFAULTS,
    Defaults,
    Entry,
    NotApplicable,
    first_reason,
    refuse_contradiction,
)
from skipjack.operations import Convolution, get, parse

# The command in a line of a log or a list: its base and its words, without the rest of the line.
#
# ::
#
#     miopenConvolutionForward: "./bin/MIOpenDriver conv -n 8  -c 64"   # as logged
#
# has the base ``conv`` and the words ``-n 8 -c 64``. Flags without a base are a command of
# ``conv``.

DRIVER_NAME = re.compile(r"MIOpenDriver(?=[\s\"'`]|$)")
"""The word before a command."""
_COMMENT = re.compile(r"(?<![-\\])#.*")
QUOTES = "\"'`"
_FLAGS_ALONE = "conv"


@dataclass(frozen=True, slots=True)
class Command:
    """The part of a command after ``MIOpenDriver``."""

    base: str
    words: tuple[str, ...]

    @property
    def text(self) -> str:
        """The command, with single spaces between words."""
        return " ".join(("MIOpenDriver", self.base, *self.words))


def is_driver_line(text: str) -> bool:
    """Whether a text is a command and not the key of a problem, which has no spaces."""
    words = text.split()
    return len(words) > 1 or bool(DRIVER_NAME.search(text))


def without_comment(line: str) -> str:
    """The text before a ``#``; the flag ``-#`` of the driver does not start a comment."""
    return _COMMENT.sub("", line, count=1).strip()


def find_command(line: str) -> Command:
    """The command in a line; `ProblemError` if there is none."""
    text = without_comment(line)
    driver = DRIVER_NAME.search(text)
    if driver:
        words = _words(_unquoted(text, driver))
        if not words or words[0].startswith("-"):
            raise ProblemError(
                f"{excerpt(text)!r} has no base after MIOpenDriver; write one such as conv"
            )
        return Command(words[0], tuple(words[1:]))
    words = _words(text)
    if words and words[0].startswith("-"):
        return Command(_FLAGS_ALONE, tuple(words))
    if len(words) > 1 and words[0].isidentifier() and words[1].startswith("-"):
        return Command(words[0], tuple(words[1:]))
    raise ProblemError(
        f"{excerpt(text)!r} is neither the key of a problem, which has no spaces, "
        "nor a command such as MIOpenDriver conv -n 1 -c 64 -H 56 -W 56"
    )


def _unquoted(text: str, driver: re.Match[str]) -> str:
    """The text after the driver's name, up to the end of the enclosing quotation."""
    before, after = text[: driver.end()], text[driver.end() :]
    if after[:1] and after[0] in QUOTES:
        closes = before.count(after[0]) % 2 == 1  # only the path is in quotes
        return after[1:] if closes else after
    for quote in QUOTES:
        if before.count(quote) % 2 == 1:
            after = after.split(quote)[0]
    return after


def _words(text: str) -> list[str]:
    """Words without the quotes and backslashes that a shell would remove."""
    return [word.strip(QUOTES).replace("\\", "") for word in text.split()]


# Batch normalisation: from the values of a command to a problem.

BATCHNORM_FLAG_OF_LETTER = {"n": "batchsize", "c": "in_channels", "h": "in_h", "w": "in_w"}
_BATCHNORM_LAYOUTS = ("NCHW", "NHWC", "NCDHW", "NDHWC")


def read_batchnorm(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """The problem of a command; if flags conflict, the one that the driver would run."""
    dtype = BATCHNORM_DTYPES[base]
    refuse_contradiction("dtype", dtype, defaults.dtype, values.where)
    spatial = values.number("mode", most=1) == 1
    depth = values.number("in_d")
    layout = _batchnorm_layout(values, depth, defaults.layout)
    sizes = "".join(f"{at}{values.number(flag)}" for at, flag in BATCHNORM_FLAG_OF_LETTER.items())
    problem = parse(f"batchnorm:{sizes}/mode={_batchnorm_mode(values)}")
    reason = first_reason(
        dtype_obstacle(dtype, get("batchnorm").dtypes),
        "its image has a depth; kernels need NCHW" if depth else None,
        None if layout in ("NCHW", "NCDHW") else f"its layout is {layout}; kernels need NCHW",
        None if spatial else "it normalises each activation; kernels normalise each channel (-m 1)",
        *values.obstacles(),
    )
    if reason is None:
        return (replace(problem, dtype=dtype),)
    more = (() if spatial else (("spatial", "0"),)) + values.unusual()
    text = replace(
        problem,
        dtype=dtype,
        layout="" if layout == "NCHW" else layout,
        shape_text=sizes.replace("h", f"d{depth}h") if depth else sizes,
        attributes=(*problem.attributes, *more),
    ).key
    return (NotApplicable(text, reason),)


def _batchnorm_mode(values: Values) -> str:
    """Forward takes precedence over backward; the default is training."""
    forward, backward = values.number("forw", most=2), values.number("back", most=1)
    if forward == 2:
        return "infer"
    return "backward" if backward and not forward else "train"


def _batchnorm_layout(values: Values, depth: int, requested: str | None) -> str:
    layout = values.word("layout").upper() or requested or ("NCDHW" if depth else "NCHW")
    if layout not in _BATCHNORM_LAYOUTS:
        known = ", ".join(_BATCHNORM_LAYOUTS)
        raise ProblemError(
            f"command {values.where!r}: layout is {excerpt(layout)!r}; it must be one of {known}"
        )
    refuse_contradiction("layout", layout, requested, values.where)
    if ("D" in layout) != (depth > 0):
        raise ProblemError(f"command {values.where!r}: layout {layout} contradicts in_d {depth}")
    return layout


# Matrix products: from the values of a command to a problem.


def read_gemm(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """The problem of a command: ``matmul``, or ``bmm`` if it has a batch.

    In column-major order, ``C = A B`` is ``C' = B' A'`` in row-major order: the operands and the
    sizes of C are swapped.
    """
    dtype = GEMM_DTYPES[base]
    refuse_contradiction("dtype", dtype, defaults.dtype, values.where)
    m, k, n = (values.number(name) for name in ("a_h", "a_w", "b_w"))
    ta, tb = (values.number(name) != 0 for name in ("transA", "transB"))
    if values.number("isColMajor"):
        m, n, ta, tb = n, m, tb, ta
    batch = values.number("batch_count")
    attributes = "".join(
        (
            "/ta=1" if ta else "",
            "/tb=1" if tb else "",
            *(f"/{name}={_gemm_factor(values, name)!r}" for name in ("alpha", "beta")),
        )
    )
    shape = f"matmul:{m}x{n}x{k}" if batch == 1 else f"bmm:{batch}x{m}x{n}x{k}"
    try:
        return (parse(f"{shape}{attributes}", dtype),)
    except ProblemError as error:
        raise ProblemError(f"command {values.where!r}: {error}") from None


def _gemm_factor(values: Values, name: str) -> float:
    text = values.word(name)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise ProblemError(
            f"command {values.where!r}: flag --{name} is {excerpt(text)!r}; "
            "it must be a finite number"
        )
    return value


# Commands of MIOpenDriver as problems.
#
# A command means one or several problems: ``-F 0``, which is also the default, runs a convolution
# in all three directions. A problem that the driver can run but no kernel of Skipjack computes is
# `NotApplicable`; a command that the driver would reject raises `ProblemError`. Defaults are those
# of the driver, not those of Skipjack's keys.

BASES = (*CONV_DTYPES, *BATCHNORM_DTYPES, *GEMM_DTYPES, *POOL_DTYPES)


def parse_driver(text: str, defaults: Defaults = NO_DEFAULTS) -> tuple[Entry, ...]:
    """The problems of a line, in the order in which the driver would run them.

    Text before the word that ends with ``MIOpenDriver``, quotes and a comment are ignored. If a
    flag is repeated, the last value counts, as in the driver. `defaults` fill in what the line
    omits; `ProblemError` if the line contradicts them.
    """
    command = find_command(text)
    base, where = command.base, excerpt(command.text)
    if base in CONV_DTYPES:
        return read_conv(base, read_values(command.words, CONV, where), defaults)
    if base in BATCHNORM_DTYPES:
        return read_batchnorm(base, read_values(command.words, BATCHNORM, where), defaults)
    if base in GEMM_DTYPES:
        return read_gemm(base, read_values(command.words, GEMM, where), defaults)
    if base in POOL_DTYPES:
        flags = pool_flags(command.words)
        return read_pool(base, read_values(command.words, flags, where), defaults)
    if base in OTHER_BASES:
        return (NotApplicable(command.text, f"no kernel here computes {base} of MIOpenDriver"),)
    close = get_close_matches(excerpt(base), (*BASES, *OTHER_BASES), 1)
    hint = f"did you mean {close[0]}?" if close else "it runs conv, bnorm, gemm, pool and others"
    raise ProblemError(f"command {where!r}: MIOpenDriver has no base {excerpt(base)!r}; {hint}")


# Problems as commands of MIOpenDriver, in the form of its own log.

_CONV_FLAGS_BY_NAME = {flag.name: flag for flag in CONV}
_BATCHNORM_FLAGS_BY_NAME = {flag.name: flag for flag in BATCHNORM}
_BATCHNORM_RUNS = {
    "train": {"forw": 1, "back": 0, "save": 1, "run": 0},
    "infer": {"forw": 2, "back": 0, "save": 0, "run": 1},
    "backward": {"forw": 0, "back": 1, "save": 1, "run": 0},
}


def driver_line(problem: Problem) -> str:
    """The command that runs this problem; parsing it returns the problem.

    `ProblemError` if the driver has no command for it.
    """
    operation = get(problem.operation)
    if isinstance(operation, Convolution):
        return _conv_line(problem, operation, _base(problem, CONV_DTYPES))
    if problem.operation == "batchnorm":
        return _batchnorm_line(problem, _base(problem, BATCHNORM_DTYPES))
    raise ProblemError(f"MIOpenDriver has no command for {problem.key}; it has conv and bnorm")


def _base(problem: Problem, dtypes: Mapping[str, str]) -> str:
    base = base_of(problem.dtype, dtypes)
    if base is None:
        raise ProblemError(f"MIOpenDriver has no command in {problem.dtype} for {problem.key}")
    return base


def _conv_line(problem: Problem, operation: Convolution, base: str) -> str:
    sizes = dict(zip(operation.letters, problem.shape, strict=True))
    words: dict[str, object] = {
        driver_conv.FLAG_OF_LETTER[letter]: size for letter, size in sizes.items()
    }
    if operation.spatial == 3:
        words["spatial_dim"] = 3
    words["mode"] = "trans" if operation.transposed else "conv"
    words["group_count"] = words.pop("group_count")  # after the mode, as in the log of the driver
    if problem.layout != operation.layouts[0]:
        words |= dict.fromkeys(driver_conv.LAYOUT_FLAGS, problem.layout)
    words["forw"] = driver_conv.DIRECTION_BITS[problem.direction]
    return _command_line(base, words, _CONV_FLAGS_BY_NAME)


def _batchnorm_line(problem: Problem, base: str) -> str:
    mode = problem.attribute("mode")
    if mode not in _BATCHNORM_RUNS:
        raise ProblemError(f"MIOpenDriver has no command for {problem.key}")
    plain = parse(f"batchnorm:{problem.shape_text}/mode={mode}", problem.dtype)
    if plain != problem:
        raise ProblemError(f"MIOpenDriver has no flag for the eps or momentum of {problem.key}")
    flags = BATCHNORM_FLAG_OF_LETTER.values()
    words: dict[str, object] = dict(zip(flags, problem.shape, strict=True))
    return _command_line(
        base, {**words, "mode": 1, **_BATCHNORM_RUNS[mode]}, _BATCHNORM_FLAGS_BY_NAME
    )


def _command_line(base: str, words: Mapping[str, object], flags: Mapping[str, Flag]) -> str:
    """Flags as letters, but long names for those whose letters a shell would interpret."""
    pairs = []
    for name, value in (*words.items(), ("time", 1)):
        letter = flags[name].letter
        short = letter.isalpha() and not name.endswith("_layout")
        pairs.append(f"{f'-{letter}' if short else f'--{name}'} {value}")
    return " ".join(("MIOpenDriver", base, *pairs))
