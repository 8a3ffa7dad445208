"""The best config of every solver of a problem: from tunings and finds of a label, or a bank.

A find runs the best configs that are known of a solver side by side, so what it says counts before
tunings that were done until then. Among the others times decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from skipjack.bank import FIND, Bank, BankEntry
from skipjack.core.config import Value
from skipjack.fleet.records import JobKind
from skipjack.fleet.release.results.bank_entries import entries_of
from skipjack.fleet.release.results.config_text import params_of
from skipjack.fleet.release.results.found import ranked
from skipjack.fleet.release.results.readiness import RANKINGS
from skipjack.fleet.release.results.sources import by_key, miopen_key, ranked_rows
from skipjack.interop.miopen.json_format import PERF, record_of

if TYPE_CHECKING:
    from skipjack.fleet.store import JobVerdict
    from skipjack.fleet.store_protocols import LabelResults


@dataclass(frozen=True, slots=True)
class BestConfig:
    """What a solver did best with."""

    solver: str
    params: str
    """The config as `params_of` writes it, or MIOpen's own parameters."""
    time_ns: float
    config: Mapping[str, Value] = field(default_factory=dict)
    spread: float | None = None
    samples: int = 0
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """One record for machines."""
        return {name: getattr(self, name) for name in BestConfig.__slots__} | {
            "config": dict(self.config)
        }


@dataclass(frozen=True, slots=True)
class TunedProblem:
    """The best configs of a problem on a device, by solver."""

    problem: str
    perf_key: str | None
    """As in a perf-db of MIOpen; None for what such files do not hold."""
    device: str
    configs: tuple[BestConfig, ...]
    impossible: int = 0
    """Times that were left out because they cannot be."""
    toolchain: str = ""
    updated: str = ""
    miopen: tuple[str, ...] = ()
    """Lines of a perf-db that MIOpen itself wrote, as they were."""

    def record(self) -> dict[str, Any]:
        """One record for machines."""
        return record_of(
            PERF,
            (self.problem, self.perf_key, self.device),
            [config.to_json() for config in self.configs],
            toolchain=self.toolchain,
            updated=self.updated,
            miopen=self.miopen,
        )


@dataclass(frozen=True, slots=True)
class _Said:
    """What one job, or an entry of a bank, says of a problem."""

    rows: Iterable[Mapping[str, Any]]
    toolchain: str
    updated: str
    ranking: bool = False
    lines: tuple[str, ...] = ()
    foreign: bool = False
    """MIOpen's: the only setting is its parameters."""


@dataclass(frozen=True, slots=True)
class _Rival:
    """A config, and what decides whether it is the best of its solver."""

    config: BestConfig
    ranking: bool
    updated: str


def tuned_in_label(
    results: LabelResults, label: str, device: str | None = None
) -> Iterator[TunedProblem]:
    """What the label's tunings and finds say; the order is that of the imports."""
    return tuned_in(results.verdicts(label, device))


def tuned_in(verdicts: Iterable[JobVerdict]) -> Iterator[TunedProblem]:
    """Likewise of some verdicts; all of a problem are in a row."""
    for problem, group in groupby(verdicts, lambda verdict: verdict.problem):
        said: dict[str, list[_Said]] = {}
        for verdict in group:
            if verdict.kind is not JobKind.KERNELS:
                said.setdefault(verdict.device, []).append(_of_job(verdict))
        for name, parts in sorted(said.items()):
            yield _joined(problem, name, parts)


def tuned_in_bank(bank: Bank, device: str | None = None) -> Iterator[TunedProblem]:
    """What this user's tunings and finds say."""
    said: dict[tuple[str, str], list[_Said]] = {}
    for entry in entries_of(bank, device):
        said.setdefault((entry.problem, entry.device_name), []).append(_of_entry(entry))
    for (problem, name), parts in said.items():
        yield _joined(problem, name, parts)


def _of_job(verdict: JobVerdict) -> _Said:
    result = verdict.result
    ranking = RANKINGS.includes(verdict.kind, verdict.driver)
    rows = result.get("solvers", ()) if ranking else [_row(result)]
    lines = tuple(map(str, result.get("miopen", {}).get("perf_db", ())))
    foreign = "miopen" in result
    return _Said(rows, verdict.toolchain, verdict.updated, ranking, lines, foreign)


def _row(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tuning's verdict as a row of a ranking."""
    return {**result, "status": "ok"}


def _of_entry(entry: BankEntry) -> _Said:
    ranking = entry.kind == FIND
    rows = entry.evidence.ranking if ranking else [_row(entry.record())]
    return _Said(rows, "", entry.created, ranking)


def _joined(problem: str, device: str, said: Iterable[_Said]) -> TunedProblem:
    rivals: dict[str, list[_Rival]] = {}
    lines: dict[str, str] = {}
    toolchains: dict[str, None] = {}
    updated, impossible = "", 0
    for part in sorted(said, key=lambda part: part.updated):  # of MIOpen's lines the later count
        for config in _configs(part):
            if config is None:
                impossible += 1
                continue
            rival = _Rival(config, part.ranking, part.updated)
            rivals.setdefault(config.solver, []).append(rival)
        lines |= by_key(part.lines)
        toolchains.update({part.toolchain: None} if part.toolchain else {})
        updated = max(updated, part.updated)
    key = miopen_key(problem)
    return TunedProblem(
        problem,
        key.perf_text if key else None,
        device,
        tuple(_best(rivals[solver]) for solver in sorted(rivals)),
        impossible,
        "; ".join(toolchains),
        updated,
        tuple(lines.values()),
    )


def _best(rivals: Sequence[_Rival]) -> BestConfig:
    last = max((rival.updated for rival in rivals if rival.ranking), default=None)
    fair = [
        rival.config
        for rival in rivals
        if last is None or (rival.updated == last if rival.ranking else rival.updated > last)
    ]
    return min(fair, key=lambda config: (config.time_ns, config.params))


def _configs(said: _Said) -> Iterator[BestConfig | None]:
    """Of solvers that have settings; None for a time that cannot be."""
    for entry in ranked(ranked_rows(said.rows, None)):
        if not entry.config:
            continue  # a library, or a solver with nothing to set
        if not entry.possible:
            yield None
            continue
        own = str(entry.config.get("params", "")) if said.foreign else params_of(entry.config)
        yield BestConfig(
            entry.solver,
            own,
            entry.time_ns,
            entry.config,
            entry.spread,
            entry.samples,
            entry.version,
        )
