"""From a line to the problems that it stands for.

A log repeats the same commands behind ever new prefixes, so that what a text means is remembered.
The usual forms are read by `skipjack.interop.quick_conv`, everything else by the parsers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from skipjack.core.dtypes import DTYPES
from skipjack.core.problem import Problem, split_key
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.importing.lines import LONGEST
from skipjack.fleet.importing.options import ImportOptions
from skipjack.fleet.store import NewProblem
from skipjack.interop import (
    ALL,
    Defaults,
    NotApplicable,
    has_lone_layout,
    problem_text,
    read_text,
    unsaid,
)
from skipjack.interop.driver_flags import CONV_DTYPES, dtype_obstacle
from skipjack.interop.quick_conv import QuickConv, quick_command, quick_find_db, quick_key
from skipjack.operations import get, parse
from skipjack.operations.convolution import DIRECTIONS, Convolution

_DRIVER = "MIOpenDriver"
_BATCH = re.compile(r"([a-z0-9_]+:n)\d+", re.ASCII)
_REMEMBERED = 50_000
_DTYPE = re.compile(rf":({'|'.join(sorted({*CONV_DTYPES.values(), *DTYPES}))})(?=:|$)")


class Kind(Enum):
    """What a line is."""

    UNDERSTOOD = "understood"
    BLANK = "blank"
    NOT_APPLICABLE = "not_applicable"
    REJECTED = "rejected"


class Reading(NamedTuple):
    """What came of one line."""

    kind: Kind
    problems: tuple[NewProblem, ...] = ()
    reason: str = ""
    without_direction: bool = False
    without_batch: bool = False
    lone_layout: bool = False


_BLANK = Reading(Kind.BLANK)
_TOO_LONG = Reading(
    Kind.REJECTED, reason=f"the line is longer than {LONGEST} characters, which no problem is"
)


class Reader:
    """Reads lines one after the other; never raises because of one."""

    def __init__(self, options: ImportOptions) -> None:
        self._batches = options.batches
        self._direction = options.direction
        self._defaults = Defaults(options.dtype, options.layout, options.direction)
        self._layout = options.layout or ""
        self._dtype = options.dtype or ""
        self._remembered: dict[str, Reading] = {}

    def read(self, line: str) -> Reading:
        """What a line means."""
        if len(line) > LONGEST:
            return _TOO_LONG
        at = line.find(_DRIVER)
        quick = self._is_plain_prefix(line[:at]) if at > 0 else at == 0
        text = line[at:] if quick else line.strip()
        known = self._remembered.get(text)
        if known is not None:
            return known
        reading = self._quickly(text, quick)
        if reading is None:
            text = problem_text(line)
            reading = self._remembered.get(text) or self._slowly(text)
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[text] = reading
        return reading

    def _is_plain_prefix(self, prefix: str) -> bool:
        """Whether what stands before the driver's name has nothing to say about what follows."""
        return not ("#" in prefix or '"' in prefix or "'" in prefix or "`" in prefix) and (
            prefix.lstrip()[:2] != "//"
        )

    def _quickly(self, text: str, command: bool) -> Reading | None:
        if command:
            after = text[len(_DRIVER) :]
            conv = quick_command(after, self._layout) if after[:1] in (" ", "\t") else None
            return self._quick_reading(conv, DIRECTIONS) if conv else None
        conv = quick_key(text, self._dtype, self._layout)
        if conv:
            return self._quick_reading(conv, DIRECTIONS[:1])
        conv = quick_find_db(text)
        return self._quick_reading(conv, DIRECTIONS) if conv else None

    def _quick_reading(self, conv: QuickConv, usual: tuple[str, ...]) -> Reading | None:
        directions, dtype = conv.directions, conv.dtype
        left_open = not directions
        if dtype not in Convolution.dtypes:
            reason = dtype_obstacle(dtype, Convolution.dtypes) or ""
            return Reading(Kind.NOT_APPLICABLE, reason=reason)
        if left_open:
            directions = self._directions(usual)
        if self._batches:
            if not all(map(conv.fits, self._batches)):
                return None
            heads = [conv.key(batch) for batch in self._batches]
        else:
            heads = [conv.key()]
        problems = tuple(
            NewProblem(f"{head}:{direction}", "conv2d", direction, dtype)
            for head in heads
            for direction in directions
        )
        return Reading(
            Kind.UNDERSTOOD, problems, without_direction=left_open, lone_layout=conv.lone_layout
        )

    def _directions(self, usual: tuple[str, ...]) -> tuple[str, ...]:
        if self._direction is None:
            return usual
        return DIRECTIONS if self._direction == ALL else (self._direction,)

    def _slowly(self, text: str) -> Reading:
        if not text:
            return _BLANK
        try:
            defaults, left_open = unsaid(text, self._defaults)
            entries = read_text(text, defaults)
            reasons = [entry.reason for entry in entries if isinstance(entry, NotApplicable)]
            if reasons:
                return Reading(Kind.NOT_APPLICABLE, reason=reasons[0])
            problems = [entry for entry in entries if isinstance(entry, Problem)]
            repeated = self._repeated(problems)
        except SkipjackError as error:
            return self._refused(text, error)
        return Reading(
            Kind.UNDERSTOOD,
            tuple(
                NewProblem(problem.key, problem.operation, problem.direction, problem.dtype)
                for problem in repeated
            ),
            without_direction=left_open,
            without_batch=bool(self._batches) and not _has_batch(problems[0]),
            lone_layout=has_lone_layout(text),
        )

    def _repeated(self, problems: list[Problem]) -> Iterable[Problem]:
        """Each with every batch size, where there are any to be had."""
        if not self._batches or not _has_batch(problems[0]):
            return problems
        return [
            parse(_BATCH.sub(rf"\g<1>{batch}", problem.key, count=1))
            for batch in self._batches
            for problem in problems
        ]

    def _refused(self, text: str, error: SkipjackError) -> Reading:
        """A key that would be right in another dtype is sound, but nothing here computes it."""
        dtype = _DTYPE.search(text)
        if dtype and dtype[1] != "f32" and isinstance(error, UsageError):
            other = _DTYPE.sub(":f32", text, count=1)
            if self._slowly(other).kind is Kind.UNDERSTOOD:
                computed = get(split_key(other).operation).dtypes
                reason = dtype_obstacle(dtype[1], computed) or str(error)
                return Reading(Kind.NOT_APPLICABLE, reason=reason)
        return Reading(Kind.REJECTED, reason=str(error))


def _has_batch(problem: Problem) -> bool:
    return _BATCH.match(problem.key) is not None
