"""The samples of a problem's fastest configs: how they are distributed, and which are ties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import quantiles
from typing import Any

from skipjack.app.views.workspace import Workspace
from skipjack.core import Config
from skipjack.ledger import MeasurementRecord
from skipjack.reading import parse_json


@dataclass(frozen=True, slots=True)
class ConfigSamples:
    """The samples of a config."""

    solver: str
    config: Config
    device: str
    """The class of the device."""
    samples_ns: Sequence[float]
    sessions: Sequence[int]
    """For each sample, the number of its session: samples of one are comparable."""
    median_ns: float
    noise: float
    """Half the range between the quartiles, as a share of the median."""
    disturbed: int
    """Samples that were left out."""
    tie: bool
    """Whether it cannot be told from the fastest."""


def config_samples(workspace: Workspace, key: str, most: int = 12) -> list[ConfigSamples]:
    """The fastest configs of a problem with their samples, by medians."""
    blocks: list[_Block] = []
    if workspace.has_ledger:
        blocks += [_ledger_block(one) for one in workspace.ledger.measurements(key)]
    if workspace.has_store:
        jobs = [one.id for one in workspace.store.browsing.jobs_of_problem(key, 20)]
        blocks += [
            _Block(one.solver, one.config, one.device_class, one.session, one.disturbed, times)
            for one in workspace.store.browsing.blocks(jobs)
            if (times := _times(one.metrics))
        ]
    return distributions(blocks, most)


@dataclass(frozen=True, slots=True)
class _Block:
    solver: str
    config: str
    device: str
    session: str
    disturbed: int
    times_ns: Sequence[float]


def _ledger_block(one: MeasurementRecord) -> _Block:
    times = one.times_ns if not one.status.failed else ()
    candidate = one.candidate
    return _Block(
        *(candidate.solver, candidate.config, one.device_class, one.session, one.disturbed), times
    )


def _times(metrics: str) -> list[float]:
    found: Any = parse_json(metrics).get("time_ns", {})
    return [float(one) for one in found.get("samples", ()) if isinstance(one, int | float)]


def distributions(blocks: Sequence[_Block], most: int) -> list[ConfigSamples]:
    """The samples of the fastest configs; see `config_samples`."""
    groups: dict[tuple[str, str, str], list[_Block]] = {}
    for block in blocks:
        if block.times_ns:
            groups.setdefault((block.solver, block.config, block.device), []).append(block)
    numbers = {name: at for at, name in enumerate(dict.fromkeys(one.session for one in blocks))}
    found = sorted(
        (_samples(name, mine, numbers) for name, mine in groups.items()),
        key=lambda one: one.median_ns,
    )[:most]
    return _with_ties(found)


def _samples(
    name: tuple[str, str, str], blocks: Sequence[_Block], numbers: Mapping[str, int]
) -> ConfigSamples:
    samples = [time for block in blocks for time in block.times_ns]
    low, middle, high = quartiles(samples)
    return ConfigSamples(
        solver=name[0],
        config=Config.from_key(name[1]),
        device=name[2],
        samples_ns=samples,
        sessions=[numbers[block.session] for block in blocks for _ in block.times_ns],
        median_ns=middle,
        noise=(high - low) / 2.0 / middle if middle else 0.0,
        disturbed=sum(block.disturbed for block in blocks),
        tie=False,
    )


def _with_ties(found: Sequence[ConfigSamples]) -> list[ConfigSamples]:
    """A config is a tie if its median is within the noise of both of the fastest one."""
    if not found:
        return []
    first = found[0]
    near = [
        one is not first
        and one.device == first.device
        and one.median_ns <= first.median_ns * (1.0 + max(first.noise, one.noise))
        for one in found
    ]
    return [replace(one, tie=tie) for one, tie in zip(found, near, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The quartiles of at least one value."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return low, middle, high
