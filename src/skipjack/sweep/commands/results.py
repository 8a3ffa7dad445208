"""Where a run's numbers come from: a JSON file, its output, LoadGen's log, or its exit alone."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skipjack.core.objective import Metric
from skipjack.errors import MalformedError, UsageError
from skipjack.execute.commands import Ended
from skipjack.interop.loadgen_log import (
    DETAIL_LOG,
    Judgement,
    LoadgenLog,
    judge,
    read_detail_log,
    scenario_metrics,
)
from skipjack.reading import parse_json
from skipjack.sweep.commands.command import Command, fill
from skipjack.sweep.commands.pattern import PatternTooSlowError, check_pattern, last_match

KINDS = ("json", "regex", "loadgen", "exit")
_LARGEST_JSON = 64 << 20
_LONGEST_LIST = 100
_AGE_NS = 2_000_000_000
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Before:
    """What result files looked like before a run, so that an old one does not count."""

    path: Path
    """Where the result is to be; placeholders are filled in."""
    stamps: Mapping[Path, Stamp] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResultReading:
    """What a run said."""

    metrics: Mapping[str, Metric]
    missing: str = ""
    """One sentence, where there is no result."""
    judgement: Judgement | None = None
    log: LoadgenLog | None = None
    """Both LoadGen's."""


@dataclass(frozen=True, slots=True)
class ResultReader:
    """``json:PATH``, ``regex:PATTERN``, ``loadgen:DIRECTORY`` or ``exit``."""

    kind: str
    where: str = ""
    """Path or pattern; a path is seen from the working directory and may have placeholders."""
    metric: str = "value"
    """What the only group of a pattern without names is called."""

    @classmethod
    def parse(cls, text: str, metric: str = "value", option: str = "--result") -> ResultReader:
        """Read the text of an option."""
        kind, colon, where = text.partition(":")
        if kind not in KINDS or (kind == "exit") == bool(colon) or (colon and not where):
            raise UsageError(
                f"{option} {text!r} is not understood; write json:FILE (json:- for the last line "
                "of the output), regex:PATTERN, loadgen:DIRECTORY or exit"
            )
        if kind == "regex":
            check_pattern(where, option)
        elif where:
            Command.parse(shlex.quote(where), option)
        return cls(kind, where, metric)

    @property
    def placeholders(self) -> frozenset[str]:
        """Names that the path needs."""
        if self.kind in ("json", "loadgen"):
            return Command.parse(shlex.quote(self.where)).placeholders
        return frozenset()

    def before(self, values: Mapping[str, str], directory: Path) -> Before:
        """Look at the place of the result before a run."""
        if self.kind not in ("json", "loadgen") or self.where == "-":
            return Before(directory)
        path = directory / fill(self.where, values, "--result")
        if self.kind == "loadgen":
            return Before(path, _stamps(_logs_below(path)))
        _age(path)
        return Before(path, _stamps([path]))

    def read(self, before: Before, ended: Ended) -> ResultReading:
        """The metrics of a run that ended well; always with ``seconds``."""
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

    def _read_json(self, before: Before, ended: Ended) -> ResultReading:
        if self.where == "-":
            return _from_last_line(ended)
        path = before.path
        stamp = _stamp(path)
        if stamp is None:
            return ResultReading({}, f"it wrote no {path}")
        if before.stamps.get(path) == stamp:
            return ResultReading({}, f"{path} is from an earlier run, this one did not write it")
        try:
            if path.stat().st_size > _LARGEST_JSON:
                return ResultReading({}, f"{path} is larger than {_LARGEST_JSON >> 20} MiB")
            content = parse_json(path.read_text(errors="replace"), finite=False)
        except OSError as error:
            return ResultReading({}, f"cannot read {path}: {error.strerror}")
        except MalformedError as error:
            return ResultReading({}, f"{path} is no JSON: {error}")
        return _from_object(content, str(path))

    def _read_output(self, ended: Ended) -> ResultReading:
        try:
            match = last_match(self.where, ended.output)
        except PatternTooSlowError:
            return ResultReading({}, f"the pattern {self.where!r} takes too long on its output")
        if match is None:
            said = ended.last_line()
            last = f"; its last line is {said!r}" if said else "; it printed nothing"
            return ResultReading({}, f"nothing in its output matches {self.where!r}{last}")
        named = match.groupdict() or {self.metric: match[1]}
        return ResultReading(
            {name: _word(text) for name, text in named.items() if text is not None}
        )

    def _read_loadgen(self, before: Before) -> ResultReading:
        found = _stamps(_logs_below(before.path))
        fresh = [path for path, stamp in found.items() if before.stamps.get(path) != stamp]
        if not fresh:
            old = "; those there are from earlier runs" if found else ""
            return ResultReading({}, f"it wrote no {DETAIL_LOG} below {before.path}{old}")
        path = max(fresh, key=lambda one: found[one][0])
        try:
            log = read_detail_log(path)
        except OSError as error:
            return ResultReading({}, f"cannot read {path}: {error.strerror}")
        if not log.finished:
            error_text = f": {log.errors[-1]}" if log.errors else ""
            return ResultReading(
                {}, f"{path} has no result, LoadGen did not come to its end{error_text}"
            )
        return ResultReading(scenario_metrics(log), "", judge(log), log)


def flattened(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Metric]]:
    """``{"a": {"b": 1}}`` as ``a.b``; items of short lists by their number."""
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
        return ResultReading({}, f"{where} holds {kind}, not an object with named numbers")
    metrics = dict(flattened(content))
    return ResultReading(metrics, "" if metrics else f"{where} holds an empty object")


def _from_last_line(ended: Ended) -> ResultReading:
    lines = [line for line in ended.tail(1 << 20).splitlines() if line.strip()]
    for line in reversed(lines):
        try:
            content = parse_json(line, finite=False)
        except MalformedError:
            continue
        if isinstance(content, dict):
            return _from_object(content, "its last line of JSON")
    return ResultReading({}, "it printed no line with a JSON object")


def _word(text: str) -> Metric:
    """A number where it is one, thousands separated by commas too."""
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

    File times move in steps of some milliseconds: one that was written just now and is written
    again at once, with as many bytes, could not be told from one that was not written.
    """
    with suppress(OSError):
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns - _AGE_NS))
