"""Metrics of a run: from a JSON file, from its output, from LoadGen's log, or its time alone."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from skipjack.core import Metric
from skipjack.errors import MalformedError, UsageError
from skipjack.execute import CommandResult
from skipjack.interop.loadgen import (
    DETAIL_LOG,
    Judgement,
    LoadgenLog,
    judge,
    read_detail_log,
    scenario_metrics,
)
from skipjack.reading import parse_json
from skipjack.sweep.commands.command import CommandTemplate, fill

# A user's pattern for a command's output: checked before the sweep, matched within limits.

_LAST_BYTES = 4 << 20
"""Only the last bytes of the output are searched."""
_LONGEST_LINE = 10_000
_SPANNING_BYTES = 1 << 16
_SECONDS = 5.0
"""The time limit of a match: some patterns take exponential time."""


class PatternTooSlowError(Exception):
    """A match took longer than the limit."""


def check_pattern(pattern: str, option: str = "--result") -> None:
    """Raise `UsageError` if it is not a pattern, or has no group for the number."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{option} regex: {pattern!r} is not a valid pattern: {error}") from None
    if not compiled.groupindex and compiled.groups != 1:
        how_many = f"{compiled.groups} groups without names" if compiled.groups else "no group"
        raise UsageError(
            f"{option} regex: {pattern!r} has {how_many}; put one group around the number, "
            r"such as (\d+), or name the groups: (?P<qps>\d+)"
        )


def last_match(pattern: str, output: Path, seconds: float = _SECONDS) -> re.Match[str] | None:
    """The last match in the output of a command: within a line, or else across lines.

    Raises `PatternTooSlowError` if that takes too long.
    """
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    compiled = re.compile(pattern)
    with _within(seconds):
        for line in reversed(text.splitlines()):
            if found := _last(compiled, line[:_LONGEST_LINE]):
                return found
        return _last(compiled, text[-_SPANNING_BYTES:])


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Interrupt the body after a time; only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(number: int, frame: FrameType | None) -> None:
        raise PatternTooSlowError

    before = signal.signal(signal.SIGALRM, over)
    remaining, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, remaining, interval)
        signal.signal(signal.SIGALRM, before)


# Metrics of a run: from a JSON file, its output, LoadGen's log, or its time alone.

KINDS = ("json", "regex", "loadgen", "exit")
_LARGEST_JSON = 64 << 20
_LONGEST_LIST = 100
_AGE_NS = 2_000_000_000
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class EarlierResult:
    """The result files before a run, so that an old one is not taken for a new one."""

    path: Path
    """The path of the result, with placeholders filled in."""
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultReading:
    """The result of a run."""

    metrics: Mapping[str, Metric]
    missing: str = ""
    """One sentence if there is no result."""
    judgement: Judgement | None = None
    log: LoadgenLog | None = None


@dataclass(frozen=True, slots=True)
class ResultReader:
    """``json:PATH``, ``regex:PATTERN``, ``loadgen:DIRECTORY`` or ``exit``."""

    kind: str
    where: str = ""
    """Path or pattern; a path is relative to the working directory and may have placeholders."""
    metric: str = "value"
    """The name of the metric in a pattern whose only group has no name."""

    @classmethod
    def parse(cls, text: str, metric: str = "value", option: str = "--result") -> ResultReader:
        """Parse the value of an option."""
        kind, colon, where = text.partition(":")
        if kind not in KINDS or (kind == "exit") == bool(colon) or (colon and not where):
            raise UsageError(
                f"{option} {text!r} is not understood; write json:FILE (json:- for the last line "
                "of the output), regex:PATTERN, loadgen:DIRECTORY or exit"
            )
        if kind == "regex":
            check_pattern(where, option)
        elif where:
            CommandTemplate.parse(shlex.quote(where), option)
        return cls(kind, where, metric)

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of the placeholders in the path."""
        if self.kind in ("json", "loadgen"):
            return CommandTemplate.parse(shlex.quote(self.where)).placeholders
        return frozenset()

    def before(self, values: Mapping[str, str], directory: Path) -> EarlierResult:
        """Record the result files before a run."""
        if self.kind not in ("json", "loadgen") or self.where == "-":
            return EarlierResult(directory)
        path = directory / fill(self.where, values, "--result")
        if self.kind == "loadgen":
            return EarlierResult(path, _stamps(_logs_below(path)))
        _age(path)
        return EarlierResult(path, _stamps([path]))

    def read(self, before: EarlierResult, ended: CommandResult) -> ResultReading:
        """The metrics of a run that succeeded; ``seconds`` is always one of them."""
        match self.kind:
            case "json":
                reading = self._read_json(before, ended)
            case "regex":
                reading = self._read_output(ended)
            case "loadgen":
                reading = self._read_loadgen(before)
            case _:
                reading = ResultReading({})
        return replace(reading, metrics={"seconds": ended.seconds, **reading.metrics})

    def _read_json(self, before: EarlierResult, ended: CommandResult) -> ResultReading:
        if self.where == "-":
            return _from_last_line(ended)
        path = before.path
        stamp = _stamp(path)
        if stamp is None:
            return ResultReading({}, f"the run did not write {path}")
        if before.stamps.get(path) == stamp:
            return ResultReading({}, f"{path} is from an earlier run; this run did not write it")
        try:
            if path.stat().st_size > _LARGEST_JSON:
                return ResultReading({}, f"{path} is larger than {_LARGEST_JSON >> 20} MiB")
            content = parse_json(path.read_text(errors="replace"), finite=False)
        except OSError as error:
            return ResultReading({}, f"cannot read {path}: {error.strerror}")
        except MalformedError as error:
            return ResultReading({}, f"{path} is not JSON: {error}")
        return _from_object(content, str(path))

    def _read_output(self, ended: CommandResult) -> ResultReading:
        try:
            match = last_match(self.where, ended.output)
        except PatternTooSlowError:
            return ResultReading(
                {}, f"matching the pattern {self.where!r} with the output took too long"
            )
        if match is None:
            said = ended.last_line()
            last = f"; the last line is {said!r}" if said else "; there is no output"
            return ResultReading({}, f"nothing in the output matches {self.where!r}{last}")
        named = match.groupdict() or {self.metric: match[1]}
        return ResultReading(
            {name: _word(text) for name, text in named.items() if text is not None}
        )

    def _read_loadgen(self, before: EarlierResult) -> ResultReading:
        found = _stamps(_logs_below(before.path))
        fresh = [path for path, stamp in found.items() if before.stamps.get(path) != stamp]
        if not fresh:
            old = "; those that exist are from earlier runs" if found else ""
            return ResultReading({}, f"the run wrote no {DETAIL_LOG} below {before.path}{old}")
        path = max(fresh, key=lambda one: found[one][0])
        try:
            log = read_detail_log(path)
        except OSError as error:
            return ResultReading({}, f"cannot read {path}: {error.strerror}")
        if not log.finished:
            error_text = f": {log.errors[-1]}" if log.errors else ""
            return ResultReading(
                {}, f"{path} has no result because LoadGen did not finish{error_text}"
            )
        return ResultReading(scenario_metrics(log), "", judge(log), log)


def flattened(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Metric]]:
    """Values of nested objects as ``a.b``; items of short lists by their index."""
    for name, value in content.items():
        key = f"{prefix}{name}"
        if isinstance(value, list):
            if len(value) > _LONGEST_LIST:
                continue
            value = {str(number): item for number, item in enumerate(value)}
        if isinstance(value, Mapping):
            yield from flattened(value, f"{key}.")
        elif isinstance(value, str):
            yield key, value
        elif value is not None:
            yield key, float(value)


def _from_object(content: object, where: str) -> ResultReading:
    if not isinstance(content, dict):
        kind = "a list" if isinstance(content, list) else "a single value"
        return ResultReading({}, f"{where} contains {kind}, not an object with named numbers")
    metrics = dict(flattened(content))
    return ResultReading(metrics, "" if metrics else f"{where} contains an empty object")


def _from_last_line(ended: CommandResult) -> ResultReading:
    lines = [line for line in ended.tail(1 << 20).splitlines() if line.strip()]
    for line in reversed(lines):
        try:
            content = parse_json(line, finite=False)
        except MalformedError:
            continue
        if isinstance(content, dict):
            return _from_object(content, "the last line of JSON")
    return ResultReading({}, "no line of the output is a JSON object")


def _word(text: str) -> Metric:
    """A number if the text is one, also with commas between thousands; otherwise the text."""
    try:
        return float(text.replace(",", "") if _THOUSANDS.fullmatch(text) else text)
    except ValueError:
        return text


def _logs_below(directory: Path) -> Iterator[Path]:
    for folder, _, names in os.walk(directory):
        yield from (Path(folder, name) for name in names if name.endswith(DETAIL_LOG))


def _stamps(paths: Iterator[Path] | list[Path]) -> dict[Path, Stamp]:
    return {path: stamp for path in paths if (stamp := _stamp(path)) is not None}


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev)


def _age(path: Path) -> None:
    """Make a file look a little older.

    File times have a resolution of some milliseconds. A file that was written just now and is
    written again with as many bytes would otherwise look unchanged.
    """
    with suppress(OSError):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - _AGE_NS))
