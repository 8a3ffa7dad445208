"""The problem in a line of a log, a list or a database, without the rest of the line.

A line contains at most one of these:

- a command of MIOpenDriver after any prefix: ``12:01 MIOpen(HIP): ./bin/MIOpenDriver conv -n 8``;
- a command of Skipjack after any prefix, as ``SKIPJACK_ENABLE_LOGGING_CMD`` logs them:
  ``rank 0: skipjack tune add:64:f32 --device znver4/1``;
- flags of a convolution without a command;
- a key, optionally in quotes or followed by a comma;
- a line of a find-db (`skipjack.interop.find_db_key`).

A ``#`` starts a comment, and so does ``//`` at the start of a line or after a space.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from skipjack.core import DTYPES, Directed, Problem, excerpt, split_key
from skipjack.errors import ProblemError, UsageError
from skipjack.interop.driver import (
    DRIVER_NAME,
    QUOTES,
    Command,
    find_command,
    is_driver_line,
    parse_driver,
    without_comment,
)
from skipjack.interop.driver_conv import LAYOUT_FLAGS, is_lone_out_layout
from skipjack.interop.driver_flags import CONV, CONV_DTYPES, POOL_DTYPES, read_values
from skipjack.interop.find_db_key import is_find_db_line, parse_find_db
from skipjack.interop.problem_entry import ALL, Defaults, Entry, NotApplicable
from skipjack.operations import get, parse

_SLASHES = re.compile(r"\s//.*", re.DOTALL)
_AROUND_A_KEY = "\"'`,; \t"
LONE_LAYOUT = "--out_layout without the other two is used as the layout of all arrays"
_OPEN = ("", "0", "7")
"""Values of ``forw`` that select no direction."""
_LAYOUT_FLAGS = frozenset(
    {"--in_layout", "--fil_layout", "--out_layout", "--layout", "-I", "-O", "-f", "-L"}
)


_TUNE = re.compile(r"(?:^|[\s:;/\]|])skipjack\s+tune\s")
_OURS = re.compile(r"\bskipjack\b")


@dataclass(frozen=True, slots=True)
class TuneCommand:
    """The problems and options of a command ``skipjack tune``."""

    problems: tuple[str, ...]
    defaults: Defaults
    device: str | None = None
    threads: int | None = None
    plugins: tuple[str, ...] = ()
    deployed: str | None = None
    caches: str | None = None


def find_tune_command(text: str) -> TuneCommand | None:
    """The command in a line, after any prefix; None if there is none."""
    found = _TUNE.search(text)
    if found is None:
        return None
    options: dict[str, list[str]] = {
        name: []
        for name in (
            *("device", "threads", "deployed", "caches"),
            *("dtype", "layout", "direction", "plugin"),
        )
    }
    problems: list[str] = []
    words = iter(_words(text[found.end() :]))
    for word in words:
        if not word.startswith("--"):
            problems.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        if name not in options:
            raise UsageError(
                f"skipjack tune {word}: a command in a file may only have problems and "
                f"{', '.join(f'--{one}' for one in options)}"
            )
        options[name].append(value if equals else next(words, ""))
    last = {name: values[-1] if values else None for name, values in options.items()}
    threads = last["threads"]
    if threads is not None and not threads.isdecimal():
        raise UsageError(f"skipjack tune --threads {threads}: give an integer")
    layout = last["layout"]
    return TuneCommand(
        tuple(problems),
        Defaults(last["dtype"], layout.upper() if layout else None, last["direction"]),
        last["device"],
        int(threads) if threads else None,
        tuple(options["plugin"]),
        last["deployed"],
        last["caches"],
    )


def _words(text: str) -> Sequence[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"cannot parse the command: {error}") from None


def is_own_message(text: str) -> bool:
    """Whether a line is a message of Skipjack without a problem to tune."""
    return bool(_OURS.search(text)) and not (_TUNE.search(text) or DRIVER_NAME.search(text))


def problem_text(line: str) -> str:
    """The content of a line without comments; may be empty.

    Of the prefix of a command only quotation marks are kept, so that equal commands of a log become
    equal texts.
    """
    text = line.replace("\0", " ").strip().removeprefix("\ufeff")
    if text.startswith(("#", "//")):
        return ""
    driver = DRIVER_NAME.search(text)
    if driver is None:
        return without_comment(_SLASHES.sub("", text, count=1))
    prefix, command = text[: driver.start()], text[driver.start() :]
    before, mark, _ = prefix.partition("#")
    if mark and _is_whole(before):
        return without_comment(before)
    kept = "".join(character for character in prefix if character in QUOTES)
    return without_comment(kept + _SLASHES.sub("", command, count=1))


def _is_whole(text: str) -> bool:
    """Whether the text before a ``#`` is a complete problem and not the prefix of a log."""
    words = text.split()
    if not words:
        return True
    if len(words) > 1:
        return words[0].startswith("-")
    return bool(re.match(r"[\"'`]?[a-z][a-z0-9_]*:[a-z0-9]", words[0]))


def read_text(text: str, defaults: Defaults) -> tuple[Entry, ...]:
    """The problems of an argument or `problem_text`, completed with `defaults`."""
    if (command := find_tune_command(text)) is not None:
        return _read_command(command, defaults)
    if is_find_db_line(text):
        return (parse_find_db(text),)
    if is_driver_line(text):
        return parse_driver(text, defaults)
    key = text.strip(_AROUND_A_KEY)
    if defaults.direction == ALL:
        return _every_direction(key, defaults)
    return (parse(key, defaults.dtype, layout=defaults.layout, direction=defaults.direction),)


def read_one(text: str, defaults: Defaults) -> Problem:
    """The only problem of a text; `ProblemError` if there are several or none."""
    first, *more = dict.fromkeys(read_text(text, defaults))
    if more:
        names = (one.key if isinstance(one, Problem) else one.text for one in (first, *more))
        raise ProblemError(
            f"{excerpt(text)!r} means {1 + len(more)} problems; give one of them: "
            f"{', '.join(names)}"
        )
    if isinstance(first, NotApplicable):
        raise ProblemError(f"not applicable: {first.text}: {first.reason}")
    return first


def _read_command(command: TuneCommand, defaults: Defaults) -> tuple[Entry, ...]:
    own = command.defaults
    filled = Defaults(
        own.dtype or defaults.dtype,
        own.layout or defaults.layout,
        own.direction or defaults.direction,
    )
    found: list[Entry] = []
    for problem in command.problems:
        try:
            found += read_text(problem, filled)
        except UsageError as error:
            if not command.plugins:
                raise
            named = " ".join(f"--plugin {plugin}" for plugin in command.plugins)
            raise UsageError(f"{error}; the command has {named}; add this option") from None
    return tuple(found)


def _every_direction(key: str, defaults: Defaults) -> tuple[Problem, ...]:
    """The key in all directions, unless it has one or its operation has none."""
    parts = split_key(key)
    operation = get(parts.operation)
    directions: tuple[str | None, ...] = (None,)
    if isinstance(operation, Directed) and not set(parts.suffixes) & set(operation.directions):
        directions = tuple(operation.directions)
    return tuple(
        parse(key, defaults.dtype, layout=defaults.layout, direction=direction)
        for direction in directions
    )


def remaining_defaults(text: str, defaults: Defaults) -> tuple[Defaults, bool]:
    """The defaults for what a text omits, and whether it omits a direction.

    They allow reading a list in which only some lines have, for example, a layout.
    """
    if is_find_db_line(text) or find_tune_command(text) is not None:
        return defaults, False
    if is_driver_line(text):
        return _remaining_for_command(find_command(text), defaults)
    return _remaining_for_key(text.strip(_AROUND_A_KEY), defaults)


def _remaining_for_command(command: Command, defaults: Defaults) -> tuple[Defaults, bool]:
    """A command always has a dtype, which follows from its base."""
    directed = command.base in CONV_DTYPES or command.base in POOL_DTYPES
    masks = [
        value
        for flag, value in zip(command.words[::2], command.words[1::2], strict=False)
        if flag in ("-F", "--forw")
    ]
    open_direction = directed and (not masks or masks[-1].lstrip("+0") in _OPEN)
    says_layout = not _LAYOUT_FLAGS.isdisjoint(command.words[::2])
    left = replace(
        defaults,
        dtype=None,
        layout=None if says_layout else defaults.layout,
        direction=defaults.direction if open_direction else None,
    )
    return left, open_direction


def has_lone_layout(text: str) -> bool:
    """Whether a command sets only the layout of its output, which then applies to all arrays, and
    it is not the default layout."""
    if is_find_db_line(text) or find_tune_command(text) or not is_driver_line(text):
        return False
    command = find_command(text)
    if command.base not in CONV_DTYPES:
        return False
    values = read_values(command.words, CONV, command.text)
    lone = is_lone_out_layout(name for name in LAYOUT_FLAGS if values.is_set(name))
    return lone and values.word("out_layout").upper() not in ("NCHW", "NCDHW")


def _remaining_for_key(key: str, defaults: Defaults) -> tuple[Defaults, bool]:
    parts = split_key(key)
    operation = get(parts.operation)
    dtype = None if set(parts.suffixes) & set(DTYPES) else defaults.dtype
    if not isinstance(operation, Directed):
        return Defaults(dtype), False
    stated = {suffix.upper() for suffix in parts.suffixes}
    open_direction = not set(parts.suffixes) & set(operation.directions)
    left = Defaults(
        dtype,
        None if stated & set(operation.layouts) else defaults.layout,
        defaults.direction if open_direction else None,
    )
    return left, open_direction
