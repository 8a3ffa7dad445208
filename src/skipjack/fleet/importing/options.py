"""What a user says about an import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skipjack.core.dtypes import DTYPES
from skipjack.errors import UsageError
from skipjack.interop import ALL

DIRECTIONS = ("fwd", "bwd", "wrw", ALL)
LAYOUTS = ("NCHW", "NHWC", "NCDHW", "NDHWC")
_LONGEST_NAME = 255
_LARGEST_BATCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Wrong ones are refused as soon as they are made, before anything is read."""

    tag: str = ""
    batches: tuple[int, ...] = ()
    """Every problem with a batch size is taken with each of these instead of its own."""
    tag_only: bool = False
    """Tag problems that are known, and add none."""
    recurrent: bool = False
    source: str = ""
    model: str = ""
    in_order: bool = False
    """Problems get numbers in the order of the lines, which jobs are made in. Takes longer."""
    direction: str | None = None
    """Of lines that name none. None: what they mean anyway, a command all and a key forward."""
    dtype: str | None = None
    """Of keys that name none; commands always do."""
    layout: str | None = None
    """Of lines that name none."""
    report: Path | None = None
    """A file for all lines that were left out, as JSON lines; the report itself has the first."""

    def __post_init__(self) -> None:
        _check_choice("direction", self.direction, DIRECTIONS)
        _check_choice("dtype", self.dtype, tuple(DTYPES))
        _check_choice("layout", self.layout, LAYOUTS)
        for what in ("tag", "source", "model"):
            _check_name(what, getattr(self, what))
        for batch in self.batches:
            if not 1 <= batch <= _LARGEST_BATCH:
                raise UsageError(f"a batch size of {batch} cannot be; give whole numbers from 1 on")
        if self.tag_only and not self.tag:
            raise UsageError("--tag-only needs a tag to give: add -t NAME")


def parse_batches(text: str) -> tuple[int, ...]:
    """``32,64,128`` as numbers, each once; `UsageError` for anything else."""
    found = []
    for part in text.split(","):
        number = part.strip()
        if not (number.isascii() and number.isdigit() and len(number) <= 10 and int(number)):
            raise UsageError(
                f"batch sizes are whole numbers from 1 on with commas between them, "
                f"such as 32,64,128; {part[:40]!r} is none"
            )
        found.append(int(number))
    return tuple(dict.fromkeys(found))


def _check_choice(what: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise UsageError(f"unknown {what} {value!r}: choose {', '.join(choices)}")


def _check_name(what: str, text: str) -> None:
    if len(text) > _LONGEST_NAME:
        raise UsageError(f"the {what} has {len(text)} characters; {_LONGEST_NAME} are the most")
    if text != text.strip() or not text.isprintable():
        raise UsageError(
            f"the {what} {text!r} begins or ends with a blank, or has invisible characters"
        )
