"""What MIOpenDriver prints, as far as it says how a run went.

The shapes of these lines are those that the program's published sources print and that logs in
public reports show, from version 2 on; none was seen on hardware here. The exit status says little:
an unknown flag ends with status 0, and what says that a result is wrong is a bit above the eight
that a system keeps, so that status is 0 as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from skipjack.core.times import possible_time

_WORDS = {
    "fwd": ("Forward", "Forward Convolution"),
    "bwd": ("Backward Data", "Backward Convolution Data"),
    "wrw": ("Backward Weights", "Backward Convolution Weights"),
}
"""By direction, in lines about time and in lines about checks."""
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)"
_REFUSED = re.compile(
    r"(?:Long Name|Input Flag): (?P<flag>\S+) Not Found !|(?P<illegal>Illegal input flag)"
    r"|(?P<base>Incorrect BaseArg|FAILED: Invalid Base Input Argument)"
)
_STEP_FAILED = re.compile(r"\b(?P<step>\w+)\(\) FAILED, rc = (?P<code>\S+)")
_ERROR = re.compile(r"(?:MIOpen\(\w+\)[^:]*: Error|MIOpen Error:)\s*(?P<text>.+)")
_LONGEST_LINE = 4096
"""Characters of a line that an error is looked for in."""
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Said:
    """How a run went, in the program's words."""

    solver: str = ""
    """The one that was run, as ``ConvAsm1x1U``; old versions do not say it."""
    time_ms: float | None = None
    """Of its kernels: the mean of all iterations but the first."""
    checked: bool | None = None
    """Whether the result was compared and is right; None if nothing was compared."""
    check: str = ""
    """The line about the comparison."""
    refused: str = ""
    """What of the command it does not know."""
    failed: str = ""
    """The step that failed."""
    error: str = ""
    """The last one that MIOpen logged; candidates of a search that fail are among them."""


def read_output(text: str, direction: str) -> Said:
    """What a run in this direction (fwd, bwd, wrw) said."""
    timed, checked = _WORDS[direction]
    chosen = re.search(
        rf"MIOpen {timed} Conv\. Algorithm: -?\d+(?:, Solution: \d+/([^\s:]+))?", text
    )
    time = re.search(rf"GPU Kernel Time {timed} Conv\. Elapsed: ({_NUMBER}) ms", text)
    check = re.search(rf"{checked} (?:(Verifies)|FAILED|Failed)\b[^\n]*", text)
    step = _STEP_FAILED.search(text)
    found = (_ERROR.search(line, 0, _LONGEST_LINE) for line in text.splitlines())
    errors = [match["text"] for match in found if match]
    return Said(
        chosen[1] or "" if chosen else "",
        float(time[1]) if time else None,
        bool(check[1]) if check else None,
        check[0].strip()[:_LONGEST] if check else "",
        _refused(text),
        f"{step['step']} failed with {step['code']}" if step else "",
        errors[-1].strip()[:_LONGEST] if errors else "",
    )


def believable(time_ms: float | None) -> bool:
    """Whether a time can be one: MIOpen of late 2024 stored zero and negative ones.

    For each run that was to warm up, it took the sum up to then off the total, not that run alone.
    """
    return possible_time(time_ms)


def _refused(text: str) -> str:
    match = _REFUSED.search(text)
    if match is None:
        return ""
    if match["flag"]:
        return f"it does not know the flag {match['flag']}"
    return "it takes a word for a flag" if match["illegal"] else "it does not know the command"
