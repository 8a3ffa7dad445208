"""Problems as commands of MIOpenDriver, the way that its own log writes them."""

from __future__ import annotations

from collections.abc import Mapping

from skipjack.core.problem import Problem
from skipjack.errors import ProblemError
from skipjack.interop import driver_batchnorm, driver_conv
from skipjack.interop.driver_flags import (
    BATCHNORM,
    BATCHNORM_DTYPES,
    CONV,
    CONV_DTYPES,
    Flag,
    base_of,
)
from skipjack.operations import get, parse
from skipjack.operations.convolution import Convolution

_CONV_FLAGS = {flag.name: flag for flag in CONV}
_BATCHNORM_FLAGS = {flag.name: flag for flag in BATCHNORM}
_BATCHNORM_RUNS = {
    "train": {"forw": 1, "back": 0, "save": 1, "run": 0},
    "infer": {"forw": 2, "back": 0, "save": 0, "run": 1},
    "backward": {"forw": 0, "back": 1, "save": 1, "run": 0},
}


def driver_line(problem: Problem) -> str:
    """The command that runs this problem; parsing it gives the problem back.

    Raises `ProblemError` for a problem that the driver has no command for.
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
    words["group_count"] = words.pop("group_count")  # after the mode, as in the driver's log
    if problem.layout != operation.layouts[0]:
        words |= dict.fromkeys(driver_conv.LAYOUT_FLAGS, problem.layout)
    words["forw"] = driver_conv.DIRECTION_BITS[problem.direction]
    return _line(base, words, _CONV_FLAGS)


def _batchnorm_line(problem: Problem, base: str) -> str:
    mode = problem.attribute("mode")
    if mode not in _BATCHNORM_RUNS:
        raise ProblemError(f"MIOpenDriver has no command for {problem.key}")
    plain = parse(f"batchnorm:{problem.shape_text}/mode={mode}", problem.dtype)
    if plain != problem:
        raise ProblemError(f"MIOpenDriver has no flag for the eps or momentum of {problem.key}")
    flags = driver_batchnorm.FLAG_OF_LETTER.values()
    words: dict[str, object] = dict(zip(flags, problem.shape, strict=True))
    return _line(base, {**words, "mode": 1, **_BATCHNORM_RUNS[mode]}, _BATCHNORM_FLAGS)


def _line(base: str, words: Mapping[str, object], flags: Mapping[str, Flag]) -> str:
    """Letters, but long names where the letter is not one: a shell would trip over it."""
    pairs = []
    for name, value in (*words.items(), ("time", 1)):
        letter = flags[name].letter
        short = letter.isalpha() and not name.endswith("_layout")
        pairs.append(f"{f'-{letter}' if short else f'--{name}'} {value}")
    return " ".join(("MIOpenDriver", base, *pairs))
