"""From the lines of a file, which may hold anything, to the problems that they stand for."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, NamedTuple

from skipjack.core import DTYPES, Problem, split_key
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.store import NewProblem
from skipjack.interop import (
    ALL,
    CONV_DTYPES,
    Defaults,
    NotApplicable,
    QuickConv,
    dtype_obstacle,
    has_lone_layout,
    problem_text,
    quick_command,
    quick_find_db,
    quick_key,
    read_text,
    remaining_defaults,
)
from skipjack.operations import DIRECTIONS, Convolution, get, parse

# Lines of a file with any content: in blocks, decoded and limited in length.
#
# The encoding is UTF-8, with or without a byte order mark, or UTF-16 with a byte order mark. A line
# that is not valid UTF-8 is decoded as Latin-1. Lines end with a line feed; a carriage return
# before it counts as white space of the line.

LONGEST = 64 << 10
"""Maximum length in characters; of longer lines one more is kept to detect them."""
_BLOCK = 1 << 20
_KEPT_BYTES = 4 * LONGEST + 1
"""Kept bytes of an incomplete line: more than `LONGEST` characters of any size."""
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def line_blocks(file: BinaryIO) -> Iterator[tuple[list[str], int]]:
    """Lists of lines without line ends, and the number of bytes read so far."""
    rest, read = b"", 0
    for block in _utf8_blocks(file):
        read += block[1]
        *whole, last = block[0].split(b"\n")
        if whole:
            whole[0] = rest + whole[0]
            rest = b""
            yield _decoded(whole), read
        rest = (rest + last)[:_KEPT_BYTES]
    if rest:
        yield _decoded([rest]), read


def _utf8_blocks(file: BinaryIO) -> Iterator[tuple[bytes, int]]:
    """Blocks in UTF-8, each with the number of bytes read."""
    first = file.read(_BLOCK)
    if first.startswith(_UTF16):
        decoder = codecs.getincrementaldecoder("utf-16")(errors="replace")
        block = first
        while block:
            yield decoder.decode(block).encode(errors="replace"), len(block)
            block = file.read(_BLOCK)
        return
    yield first.removeprefix(codecs.BOM_UTF8), len(first)
    while block := file.read(_BLOCK):
        yield block, len(block)


def _decoded(lines: list[bytes]) -> list[str]:
    try:
        texts = b"\n".join(lines).decode().split("\n")
    except UnicodeDecodeError:
        texts = [_decode(line) for line in lines]
    return [text if len(text) <= LONGEST else text[: LONGEST + 1] for text in texts]


def _decode(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


# Options of an import.

IMPORT_DIRECTIONS = ("fwd", "bwd", "wrw", ALL)
IMPORT_LAYOUTS = ("NCHW", "NHWC", "NCDHW", "NDHWC")
_LONGEST_NAME = 255
_LARGEST_BATCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of an import, which are validated on creation."""

    tag: str = ""
    batches: tuple[int, ...] = ()
    """Import every problem that has a batch size with each of these instead."""
    tag_only: bool = False
    """Only tag known problems; do not add new ones."""
    recurrent: bool = False
    source: str = ""
    model: str = ""
    in_order: bool = False
    """Number problems, and so jobs, in the order of lines, which is slower."""
    direction: str | None = None
    """Direction for lines without one. None: all for commands, forward for keys."""
    dtype: str | None = None
    """Dtype for keys without one; commands always have one."""
    layout: str | None = None
    """Layout for lines without one."""
    report: Path | None = None
    """A file for all omitted lines, as JSON lines; the report contains only the first."""

    def __post_init__(self) -> None:
        _check_choice("direction", self.direction, IMPORT_DIRECTIONS)
        _check_choice("dtype", self.dtype, tuple(DTYPES))
        _check_choice("layout", self.layout, IMPORT_LAYOUTS)
        for what in ("tag", "source", "model"):
            _check_name(what, getattr(self, what))
        for batch in self.batches:
            if not 1 <= batch <= _LARGEST_BATCH:
                raise UsageError(f"the batch size {batch} is out of range; give positive integers")
        if self.tag_only and not self.tag:
            raise UsageError("--tag-only needs a tag: add -t NAME")


def parse_batches(text: str) -> tuple[int, ...]:
    """Parse ``32,64,128`` as distinct numbers; `UsageError` for anything else."""
    found = []
    for part in text.split(","):
        number = part.strip()
        if not (number.isascii() and number.isdigit() and len(number) <= 10 and int(number)):
            raise UsageError(
                f"{part[:40]!r} is not a batch size; "
                "give positive integers separated by commas, such as 32,64,128"
            )
        found.append(int(number))
    return tuple(dict.fromkeys(found))


def _check_choice(what: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise UsageError(f"unknown {what} {value!r}; choose from {', '.join(choices)}")


def _check_name(what: str, text: str) -> None:
    if len(text) > _LONGEST_NAME:
        raise UsageError(f"the {what} has {len(text)} characters; the limit is {_LONGEST_NAME}")
    if text != text.strip() or not text.isprintable():
        raise UsageError(
            f"the {what} {text!r} starts or ends with a space, or has invisible characters"
        )


# From a line to its problems.
#
# A log repeats the same commands with different prefixes, so results are cached by text. The usual
# forms are parsed by `skipjack.interop.quick_conv`, all others by the regular parsers.

_DRIVER = "MIOpenDriver"
_BATCH = re.compile(r"([a-z0-9_]+:n)\d+", re.ASCII)
_REMEMBERED = 50_000
_DTYPE = re.compile(rf":({'|'.join(sorted({*CONV_DTYPES.values(), *DTYPES}))})(?=:|$)")


class LineKind(Enum):
    """The classification of a line."""

    UNDERSTOOD = "understood"
    BLANK = "blank"
    NOT_APPLICABLE = "not_applicable"
    REJECTED = "rejected"


class LineResult(NamedTuple):
    """The result of reading a line."""

    kind: LineKind
    problems: tuple[NewProblem, ...] = ()
    reason: str = ""
    without_direction: bool = False
    without_batch: bool = False
    lone_layout: bool = False


_BLANK = LineResult(LineKind.BLANK)
_TOO_LONG = LineResult(
    LineKind.REJECTED,
    reason=f"the line is longer than {LONGEST} characters, so it is not a problem",
)


class LineReader:
    """Reads lines one by one; invalid lines do not raise errors."""

    def __init__(self, options: ImportOptions) -> None:
        self._batches = options.batches
        self._direction = options.direction
        self._defaults = Defaults(options.dtype, options.layout, options.direction)
        self._layout = options.layout or ""
        self._dtype = options.dtype or ""
        self._remembered: dict[str, LineResult] = {}

    def read(self, line: str) -> LineResult:
        """The result for a line, which may be cached."""
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
        """Whether the text before the driver's name does not affect the command."""
        return not ("#" in prefix or '"' in prefix or "'" in prefix or "`" in prefix) and (
            prefix.lstrip()[:2] != "//"
        )

    def _quickly(self, text: str, command: bool) -> LineResult | None:
        if command:
            after = text[len(_DRIVER) :]
            conv = quick_command(after, self._layout) if after[:1] in (" ", "\t") else None
            return self._quick_reading(conv, DIRECTIONS) if conv else None
        conv = quick_key(text, self._dtype, self._layout)
        if conv:
            return self._quick_reading(conv, DIRECTIONS[:1])
        conv = quick_find_db(text)
        return self._quick_reading(conv, DIRECTIONS) if conv else None

    def _quick_reading(self, conv: QuickConv, usual: tuple[str, ...]) -> LineResult | None:
        directions, dtype = conv.directions, conv.dtype
        left_open = not directions
        if dtype not in Convolution.dtypes:
            reason = dtype_obstacle(dtype, Convolution.dtypes) or ""
            return LineResult(LineKind.NOT_APPLICABLE, reason=reason)
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
        return LineResult(
            LineKind.UNDERSTOOD, problems, without_direction=left_open, lone_layout=conv.lone_layout
        )

    def _directions(self, usual: tuple[str, ...]) -> tuple[str, ...]:
        if self._direction is None:
            return usual
        return DIRECTIONS if self._direction == ALL else (self._direction,)

    def _slowly(self, text: str) -> LineResult:
        if not text:
            return _BLANK
        try:
            defaults, left_open = remaining_defaults(text, self._defaults)
            entries = read_text(text, defaults)
            reasons = [entry.reason for entry in entries if isinstance(entry, NotApplicable)]
            if reasons:
                return LineResult(LineKind.NOT_APPLICABLE, reason=reasons[0])
            problems = [entry for entry in entries if isinstance(entry, Problem)]
            repeated = self._repeated(problems)
        except SkipjackError as error:
            return self._refused(text, error)
        return LineResult(
            LineKind.UNDERSTOOD,
            tuple(
                NewProblem(problem.key, problem.operation, problem.direction, problem.dtype)
                for problem in repeated
            ),
            without_direction=left_open,
            without_batch=bool(self._batches) and not _has_batch(problems[0]),
            lone_layout=has_lone_layout(text),
        )

    def _repeated(self, problems: list[Problem]) -> Iterable[Problem]:
        """Each problem with every requested batch size, if it has a batch."""
        if not self._batches or not _has_batch(problems[0]):
            return problems
        return [
            parse(_BATCH.sub(rf"\g<1>{batch}", problem.key, count=1))
            for batch in self._batches
            for problem in problems
        ]

    def _refused(self, text: str, error: SkipjackError) -> LineResult:
        """Not applicable if the key is valid in another dtype, else rejected."""
        dtype = _DTYPE.search(text)
        if dtype and dtype[1] != "f32" and isinstance(error, UsageError):
            other = _DTYPE.sub(":f32", text, count=1)
            if self._slowly(other).kind is LineKind.UNDERSTOOD:
                computed = get(split_key(other).operation).dtypes
                reason = dtype_obstacle(dtype[1], computed) or str(error)
                return LineResult(LineKind.NOT_APPLICABLE, reason=reason)
        return LineResult(LineKind.REJECTED, reason=str(error))


def _has_batch(problem: Problem) -> bool:
    return _BATCH.match(problem.key) is not None
