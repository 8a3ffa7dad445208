"""Problems from arguments and from files: keys, and commands of MIOpenDriver."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from skipjack.core.problem import Problem
from skipjack.errors import UsageError
from skipjack.interop import (
    ALL,
    LONE_LAYOUT,
    Defaults,
    Entry,
    find_tune_command,
    has_lone_layout,
    is_own_message,
    read_text,
    without_comment,
)
from skipjack.reading import numbered

Say = Callable[[str], None]


class Placement(NamedTuple):
    """Where and how a problem is to be tuned, as far as that is named."""

    device: str | None = None
    threads: int | None = None
    deployed: str | None = None
    caches: str | None = None


_ANYWHERE = Placement()
_STDIN = Path("-")
_DIRECTIONS = ("fwd", "bwd", "wrw", ALL)


def make_defaults(dtype: str | None, layout: str | None, direction: str | None) -> Defaults:
    """What the flags of a command say; upper and lower case are the same."""
    direction = direction.lower() if direction else None
    if direction not in (None, *_DIRECTIONS):
        raise UsageError(f"unknown direction {direction!r}: choose {', '.join(_DIRECTIONS)}")
    return Defaults(dtype, layout.upper() if layout else None, direction)


@dataclass(frozen=True, slots=True)
class ProblemList:
    """Problems as people write them: keys, driver commands, kernels of their own, a file."""

    texts: tuple[str, ...] = ()
    file: Path | None = None
    """A key or a command a line; ``-`` is standard input."""
    shapes: tuple[str, ...] = ()
    """For kernels of the user's own, as ``4096x1024``."""
    dtype: str | None = None
    """Where a key does not say it, as `layout` and `direction` are."""
    layout: str | None = None
    direction: str | None = None

    def placed(self, say: Say = lambda _: None) -> dict[Placement, list[Entry]]:
        """The entries by where and how they are to be tuned; see `read_placed`."""
        defaults = make_defaults(self.dtype, self.layout, self.direction)
        return read_placed(self.texts, self.file, defaults, self.shapes, say)

    def entries(self, say: Say = lambda _: None) -> list[Entry]:
        """The entries in order; see `read_problems`."""
        defaults = make_defaults(self.dtype, self.layout, self.direction)
        return read_problems(self.texts, self.file, defaults, self.shapes, say)

    @property
    def are_dumps(self) -> bool:
        """Whether the texts are directories that dumps were written to; `UsageError` if mixed."""
        from skipjack.app.dumps import are_dumps

        said = (self.file, self.shapes or None, self.dtype, self.layout, self.direction)
        return are_dumps(self.texts, *said)


def regrouped(
    placed: Mapping[Placement, Iterable[Entry]], change: Callable[[Placement], Placement]
) -> dict[Placement, list[Entry]]:
    """The same entries by changed placements, each once."""
    found: dict[Placement, dict[Entry, None]] = {}
    for at, entries in placed.items():
        found.setdefault(change(at), {}).update(dict.fromkeys(entries))
    return {at: list(entries) for at, entries in found.items()}


def read_problems(
    keys: Sequence[str],
    file: Path | None,
    defaults: Defaults,
    shapes: Sequence[str] = (),
    say: Say = lambda _: None,
) -> list[Entry]:
    """All that was asked for, each once and in order, with what cannot be computed here among it.

    An argument with a blank in it is a command of MIOpenDriver, which may stand for several
    problems; one with ``::`` in it is a kernel of the user's own, at each of the shapes. Anything
    that is wrong stops everything. `say` is told what of a list was left out or understood in an
    unusual way.
    """
    placed = read_placed(keys, file, defaults, shapes, say)
    return list(dict.fromkeys(entry for entries in placed.values() for entry in entries))


def read_placed(
    keys: Sequence[str],
    file: Path | None,
    defaults: Defaults,
    shapes: Sequence[str] = (),
    say: Say = lambda _: None,
) -> dict[Placement, list[Entry]]:
    """The same, by what commands ``skipjack tune`` in a file name besides problems."""
    found = [(_ANYWHERE, entry) for key in keys for entry in _read_argument(key, defaults, shapes)]
    _say_lone_layouts(say, "", sum(has_lone_layout(key) for key in keys if "::" not in key))
    if shapes and not any("::" in key for key in keys):
        raise UsageError("--shapes are for kernels of your own, as file.py::softmax; leave it out")
    if file is not None:
        found += _read_file(file, defaults, say)
    if not found and file is not None:
        raise UsageError(f"{file} names no problem; write one a line, as matmul:192x192x192")
    if not found:
        raise UsageError("no problem given; write one as matmul:192x192x192, or a file after -f")
    _refuse_vain([entry for _, entry in found], defaults)
    placed: dict[Placement, list[Entry]] = {}
    for place, entry in dict.fromkeys(found):
        placed.setdefault(place, []).append(entry)
    return placed


def _read_argument(text: str, defaults: Defaults, shapes: Sequence[str]) -> Sequence[Entry]:
    from skipjack.integrations.triton_file import is_user_kernel, load_user_kernel

    if is_user_kernel(text):
        return load_user_kernel(text, list(shapes), defaults.dtype)
    return read_text(text, defaults)


def _refuse_vain(entries: list[Entry], defaults: Defaults) -> None:
    """A flag that no problem listens to is a mistake."""
    problems = [entry for entry in entries if isinstance(entry, Problem)]
    if len(problems) < len(entries):
        return  # commands of the driver have layouts and directions of their own
    for name in ("layout", "direction"):
        if getattr(defaults, name) and not any(getattr(problem, name) for problem in problems):
            raise UsageError(f"--{name} says nothing about {problems[0].key}; leave it out")


def _read_file(path: Path, defaults: Defaults, say: Say) -> list[tuple[Placement, Entry]]:
    found: list[tuple[Placement, Entry]] = []
    left_out = lone_layouts = 0
    for number, line in enumerate(_lines(path), 1):
        text = without_comment(line)
        if not text:
            continue
        if is_own_message(text):
            left_out += 1
            continue
        try:
            command = find_tune_command(text)
            place = _ANYWHERE
            if command:
                place = Placement(command.device, command.threads, command.deployed, command.caches)
            found += [(place, entry) for entry in read_text(text, defaults)]
            lone_layouts += has_lone_layout(text)
        except UsageError as error:
            raise UsageError(f"{_name(path)}, line {number}: {error}") from None
    if left_out:
        say(
            f"{_name(path)}: messages of Skipjack that name no problem to tune were left out: "
            f"{left_out}"
        )
    _say_lone_layouts(say, f"{_name(path)}: ", lone_layouts)
    return found


def _say_lone_layouts(say: Say, where: str, count: int) -> None:
    """Once for a whole list."""
    if count:
        say(f"{where}{numbered(count, 'command')}: {LONE_LAYOUT}")


def _lines(path: Path) -> list[str]:
    try:
        text = sys.stdin.read() if path == _STDIN else path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{_name(path)} is not a text file") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return text.splitlines()


def _name(path: Path) -> str:
    return "stdin" if path == _STDIN else str(path)
