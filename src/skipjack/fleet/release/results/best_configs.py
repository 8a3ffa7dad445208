"""The best config of every solver of a problem, and configs as parameters in a perf-db."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from skipjack.bank import FIND, Bank, BankEntry
from skipjack.core import Config, Value
from skipjack.errors import UsageError
from skipjack.fleet.model import JobKind
from skipjack.fleet.release.results.ranking_sources import (
    by_key,
    entries_of,
    miopen_key,
    ranked_rows,
)
from skipjack.fleet.release.results.rankings import ranked
from skipjack.fleet.release.results.readiness import RANKINGS
from skipjack.interop.miopen import PERF, record_of
from skipjack.reading import parse_json, whole_number

if TYPE_CHECKING:
    from skipjack.fleet.labels import LabelResults
    from skipjack.fleet.store import JobVerdict


# Configs as parameters in a perf-db of MIOpen, and back.
#
# ::
#
#     rows~6,vectors~4,unroll~4                       numbers
#     fused~true,name~tiled,digits~"12",empty~""      truth values and strings
#     schedule~m%3A4 n%3A64 k m/u n/v                 no colon, semicolon or equals sign
#     axes~![1%2C2]                                   anything else, as JSON
#
# Settings are sorted by name and joined by commas, each as ``name~value``. A string is quoted if it
# could be read as another type. Characters with a meaning in the file, invisible ones and those
# beyond ASCII are written as ``%`` and two hexadecimal digits for each byte of their UTF-8. So the
# text contains none of ``; : =`` and no line ends, and it preserves types: 1, 1.0, true and "1" are
# four different values.

_UNESCAPED = re.compile(r"[A-Za-z0-9_.+/<>()\[\]{}|*@&!?^$#'\" -]+")
"""Characters that need no escape."""
_LITERALS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_FLOAT = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def params_of(config: Mapping[str, Any]) -> str:
    """The config as text, which is empty without settings."""
    pairs = sorted(config.items())
    return ",".join(f"{_escaped(name)}~{_value_text(value)}" for name, value in pairs)


def config_of(params: str) -> Config:
    """Parse the text of `params_of`; `UsageError` if it is invalid."""
    settings: dict[str, Any] = {}
    for pair in params.split(",") if params else ():
        written, tilde, text = pair.partition("~")
        try:
            name = _plain(written)
        except ValueError:
            raise UsageError(
                f"{params!r} is not a config of Skipjack: {written!r} is not the name of a setting"
            ) from None
        if not tilde or name in settings:
            wrong = "has no value" if not tilde else "is given twice"
            raise UsageError(f"{params!r} is not a config of Skipjack: setting {name!r} {wrong}")
        try:
            settings[name] = _value_of(text)
        except ValueError:
            raise UsageError(
                f"{params!r} is not a config of Skipjack: {text!r} is not a value for {name!r}"
            ) from None
    return Config.of(settings)


def _value_text(value: object) -> str:
    if isinstance(value, str):
        plain = not (value in _LITERALS or value[:1] in ('"', "!", "") or _FLOAT.fullmatch(value))
        return _escaped(value) if plain else f'"{_escaped(value)}"'
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return _escaped(text if isinstance(value, bool | int | float | None) else f"!{text}")


def _value_of(text: str) -> object:
    text = _plain(text)
    if text[:1] == '"':
        return text[1:-1]
    if text[:1] == "!":
        return parse_json(text[1:])
    if text in _LITERALS:
        return _LITERALS[text]
    if _INTEGER.fullmatch(text):
        return whole_number(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _escaped(text: str) -> str:
    """The text with escapes where necessary, also of spaces at its ends."""
    if _UNESCAPED.fullmatch(text) and text == text.strip():
        return text
    core = text.strip(" ")
    head, tail = text[: len(text) - len(text.lstrip(" "))], text[len(text.rstrip(" ")) :]
    blanks = (head, tail) if core else (head, "")
    inner = "".join(one if _UNESCAPED.fullmatch(one) else _hexadecimal(one) for one in core)
    return _hexadecimal(blanks[0]) + inner + _hexadecimal(blanks[1])


def _hexadecimal(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode("utf-8", "surrogatepass"))


def _plain(text: str) -> str:
    return unquote(text, encoding="utf-8", errors="surrogatepass")


# The best config of every solver of a problem: from tunings and finds of a label, or a bank.
#
# A find compares the best known configs of a solver in one session, so its results take precedence
# over earlier tunings. Otherwise the fastest config is chosen.


@dataclass(frozen=True, slots=True)
class BestConfig:
    """The best config of a solver."""

    solver: str
    params: str
    """The config as text of `params_of`, or MIOpen's own parameters."""
    time_ns: float
    config: Mapping[str, Value] = field(default_factory=dict)
    spread: float | None = None
    samples: int = 0
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """The JSON object of an export."""
        return {name: getattr(self, name) for name in BestConfig.__slots__} | {
            "config": dict(self.config)
        }


@dataclass(frozen=True, slots=True)
class TunedProblem:
    """The best configs of a problem on a device, by solver."""

    problem: str
    perf_key: str | None
    """The key in a perf-db of MIOpen; None if MIOpen has none."""
    device: str
    configs: tuple[BestConfig, ...]
    impossible: int = 0
    """Number of impossible times that were left out."""
    toolchain: str = ""
    updated: str = ""
    miopen: tuple[str, ...] = ()
    """Verbatim lines of a perf-db that MIOpen wrote."""

    def record(self) -> dict[str, Any]:
        """The JSON object of an export."""
        return record_of(
            PERF,
            (self.problem, self.perf_key, self.device),
            [config.to_json() for config in self.configs],
            toolchain=self.toolchain,
            updated=self.updated,
            miopen=self.miopen,
        )


@dataclass(frozen=True, slots=True)
class _ProblemResult:
    """The results of one job, or of one entry of a bank, for a problem."""

    rows: Iterable[Mapping[str, Any]]
    toolchain: str
    updated: str
    ranking: bool = False
    lines: tuple[str, ...] = ()
    foreign: bool = False
    """Whether it is of MIOpen, so that the only setting is its parameters."""


@dataclass(frozen=True, slots=True)
class _ConfigCandidate:
    """A config, with the criteria for choosing the best one of its solver."""

    config: BestConfig
    ranking: bool
    updated: str


def tuned_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> Iterator[TunedProblem]:
    """The results of a label's tunings and finds, in the order of imports."""
    return tuned_in(results.verdicts(label, device))


def tuned_in(verdicts: Iterable[JobVerdict]) -> Iterator[TunedProblem]:
    """The results of some jobs, of which those of one problem must be adjacent."""
    for problem, group in groupby(verdicts, lambda verdict: verdict.problem):
        results: dict[str, list[_ProblemResult]] = {}
        for verdict in group:
            if verdict.kind is not JobKind.KERNELS:
                results.setdefault(verdict.device, []).append(_of_job(verdict))
        for name, parts in sorted(results.items()):
            yield _joined(problem, name, parts)


def tuned_in_bank(bank: Bank, device: str | None = None) -> Iterator[TunedProblem]:
    """The results of the tunings and finds in a bank."""
    results: dict[tuple[str, str], list[_ProblemResult]] = {}
    for entry in entries_of(bank, device):
        results.setdefault((entry.problem, entry.device_name), []).append(_of_entry(entry))
    for (problem, name), parts in results.items():
        yield _joined(problem, name, parts)


def _of_job(verdict: JobVerdict) -> _ProblemResult:
    result = verdict.result
    ranking = RANKINGS.includes(verdict.kind, verdict.driver)
    rows = result.get("solvers", ()) if ranking else [_row(result)]
    lines = tuple(map(str, result.get("miopen", {}).get("perf_db", ())))
    foreign = "miopen" in result
    return _ProblemResult(rows, verdict.toolchain, verdict.updated, ranking, lines, foreign)


def _row(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of a tuning as a row of a ranking."""
    return {**result, "status": "ok"}


def _of_entry(entry: BankEntry) -> _ProblemResult:
    ranking = entry.kind == FIND
    rows = entry.evidence.ranking if ranking else [_row(entry.record())]
    return _ProblemResult(rows, "", entry.created, ranking)


def _joined(problem: str, device: str, results: Iterable[_ProblemResult]) -> TunedProblem:
    candidates: dict[str, list[_ConfigCandidate]] = {}
    lines: dict[str, str] = {}
    toolchains: dict[str, None] = {}
    updated, impossible = "", 0
    for part in sorted(
        results, key=lambda part: part.updated
    ):  # later lines of MIOpen take precedence
        for config in _configs(part):
            if config is None:
                impossible += 1
                continue
            candidate = _ConfigCandidate(config, part.ranking, part.updated)
            candidates.setdefault(config.solver, []).append(candidate)
        lines |= by_key(part.lines)
        toolchains.update({part.toolchain: None} if part.toolchain else {})
        updated = max(updated, part.updated)
    key = miopen_key(problem)
    return TunedProblem(
        problem,
        key.perf_text if key else None,
        device,
        tuple(_best(candidates[solver]) for solver in sorted(candidates)),
        impossible,
        "; ".join(toolchains),
        updated,
        tuple(lines.values()),
    )


def _best(candidates: Sequence[_ConfigCandidate]) -> BestConfig:
    last = max((candidate.updated for candidate in candidates if candidate.ranking), default=None)
    fair = [
        candidate.config
        for candidate in candidates
        if last is None
        or (candidate.updated == last if candidate.ranking else candidate.updated > last)
    ]
    return min(fair, key=lambda config: (config.time_ns, config.params))


def _configs(result: _ProblemResult) -> Iterator[BestConfig | None]:
    """Configs of solvers that have settings; None for an impossible time."""
    for entry in ranked(ranked_rows(result.rows, None)):
        if not entry.config:
            continue  # a library, or a solver without settings
        if not entry.possible:
            yield None
            continue
        own = str(entry.config.get("params", "")) if result.foreign else params_of(entry.config)
        yield BestConfig(
            entry.solver,
            own,
            entry.time_ns,
            entry.config,
            entry.spread,
            entry.samples,
            entry.version,
        )
