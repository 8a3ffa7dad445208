"""The problem that a program asks for: a key as a rule, or whatever else a command line takes."""

from __future__ import annotations

import re

from skipjack.core.problem import Problem
from skipjack.operations import parse

_KEY = re.compile(r"[A-Za-z_]\w*:\S*")


def asked_problem(
    text: str,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    direction: str | None = None,
) -> Problem:
    """The one problem that a key, a command of MIOpenDriver or a find-db's line stands for.

    The others fill in what it leaves open, as for `parse`.
    """
    if not isinstance(text, str) or _KEY.fullmatch(text):
        return parse(text, dtype, layout=layout, direction=direction)
    from skipjack.interop import Defaults, read_one  # a key, which most are, needs none of it

    return read_one(text, Defaults(dtype, layout.upper() if layout else None, direction))
