"""How many parameters a compiled kernel takes, counted in its assembly.

A launch gives the arguments of the function and then pointers that Triton adds. How many it adds is
counted, for versions of Triton differ in it, and a launch with one too few reads anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from skipjack.gpu.artifact import Argument
from skipjack.gpu.triton_compiler import GpuBuildError

_ENTRY = re.compile(r"\.visible \.entry \w+\((.*?)\)", re.DOTALL)
_SHAPE = re.compile(r"tensordesc<[^\[]*\[([^\]]*)\]")
_MOST_HIDDEN = 2
"""Global scratch and profile scratch."""


def hidden_pointers(
    arguments: Iterable[Argument], counted: int, *, copy_engine: bool, kernel: str
) -> int:
    """Parameters after the last argument, of which Triton makes no secret but the number."""
    hidden = counted - sum(parts(argument, copy_engine=copy_engine) for argument in arguments)
    if 0 <= hidden <= _MOST_HIDDEN:
        return hidden
    raise GpuBuildError(
        f"kernel {kernel}: it takes {counted} parameters, which do not fit its arguments; "
        "this version of Triton passes them in a way that is not known here"
    )


def parts(argument: Argument, *, copy_engine: bool) -> int:
    """How many parameters one argument becomes.

    A descriptor is followed by its shape and strides. Without a copy engine, an address, shape and
    strides and a flag stand in the place of the descriptor itself.
    """
    shape = _SHAPE.match(argument.type)
    if shape is None:
        return 1
    rank = shape[1].count(",") + 1
    itself = 1 if copy_engine else 1 + 2 * rank + 1
    return itself + 2 * rank


def count_in_ptx(text: str) -> int:
    """Parameters of the one kernel."""
    entry = _ENTRY.search(text)
    return entry[1].count(".param") if entry else 0


def count_in_amdgcn(text: str) -> int:
    """Parameters of the one kernel, without those that the runtime fills in by itself."""
    return len(re.findall(r"^\s+(?:- )?\.value_kind:\s+(?!hidden_|\s)", text, re.MULTILINE))
