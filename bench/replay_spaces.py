"""Recorded spaces to compare searchers on: T4 files, ledgers, and synthetic ones drawn by a seed.

A synthetic space has what recorded ones have: constraints, parameters of which few matter much,
interactions of pairs, cliffs (a resource that is exceeded), a bottleneck that hides the other
effects, effects of single values that are no function of size, failures in a region and single
ones, noise, and a heavy tail of slow configs. It depends on its number alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from skipjack.core import Config, Parameter, ParameterSpace, Status, Trial
from skipjack.errors import SkipjackError, SpaceError
from skipjack.interop import TuningResults, write_kernel_tuner_cache
from skipjack.learn.replay import RecordedSpace, load_recording
from skipjack.learn.trials import read_trials

SYNTHETIC = 6
_SEED = 250_001
_LARGEST, _SMALLEST = 12_000, 1_500
_LEDGER_CONFIGS = 150
_VALUES: tuple[tuple[int | str | bool, ...], ...] = (
    (1, 2, 4, 8, 16, 32, 64, 128),
    (8, 16, 32, 64, 128, 256),
    (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256),
    (1, 2, 3, 4, 5, 6, 7, 8),
    (1, 2, 4, 8),
    (1, 2, 3, 4),
    (False, True),
    (False, True),
    (0, 1, 2),
    ("row", "column", "block"),
)


@dataclass(frozen=True)
class Case:
    """A space to search, and recordings of the same parameters on other devices."""

    name: str
    kind: str
    """``t4``, ``ledger`` or ``synthetic``."""
    space: RecordedSpace
    prior: tuple[RecordedSpace, ...] = ()

    @cached_property
    def digest(self) -> str:
        """Identifies configs and results, so that results of peers are kept."""
        rows = [f"{trial.config.key} {trial.status} {trial.value!r}" for trial in self.space.trials]
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]

    def write_cache(self, path: Path) -> None:
        """For Kernel Tuner, whose strategies need numbers: a text or a truth value is its rank."""
        texts = {
            parameter.name: parameter.values
            for parameter in self.space.parameters
            if isinstance(parameter.values[0], str | bool)
        }
        trials = [
            Trial(
                one.config.replace(**{n: v.index(one.config[n]) for n, v in texts.items()}),
                one.status,
                one.value,
            )
            for one in self.space.trials
        ]
        write_kernel_tuner_cache(path, TuningResults(tuple(trials)))


def t4_cases(folders: Sequence[Path]) -> list[Case]:
    """The files of folders; those of the same program are each other's prior."""
    found = (path for folder in folders for path in sorted(folder.iterdir()))
    files = [path for path in found if path.name.endswith((".json", ".json.gz"))]
    spaces = [load_recording(path) for path in files]
    return [Case(one.name, "t4", one, tuple(_relatives(one, spaces))) for one in spaces]


def _relatives(space: RecordedSpace, others: Sequence[RecordedSpace]) -> list[RecordedSpace]:
    """Recordings of the same program on other devices: named so up to the last word."""
    program = space.name.rpartition("_")[0]
    return [
        other
        for other in others
        if other is not space
        and other.name.rpartition("_")[0] == program
        and {p.name for p in other.parameters} == {p.name for p in space.parameters}
    ]


def ledger_cases(folders: Sequence[Path], most: int = 6) -> list[Case]:
    """The largest recorded spaces of ledgers: problems and solvers with enough timed configs."""
    found: list[tuple[int, str, Case]] = []
    for folder in folders:
        sizes: Counter[tuple[str, str, str]] = Counter()
        for one in read_trials([folder]):
            for measured in one.measured:
                sizes[one.problem.key, measured.solver, one.device.class_key] += 1
        for (problem, solver, device), size in sizes.items():
            if size < _LEDGER_CONFIGS:
                continue
            try:
                space = load_recording(folder, problem=problem, solver=solver, device=device)
            except SkipjackError:
                continue  # schedules of loop nests
            if space.count() >= _LEDGER_CONFIGS:
                found.append((space.count(), space.name, Case(space.name, "ledger", space)))
    found.sort(key=lambda one: (-one[0], one[1]))
    return [case for _, _, case in found[:most]]


def synthetic_cases(count: int = SYNTHETIC) -> list[Case]:
    """Spaces of number 0, 1, ..."""
    return [Case(f"synthetic {number}", "synthetic", synthetic(number)) for number in range(count)]


def synthetic(number: int) -> RecordedSpace:
    """A made up space with the structure of recorded ones."""
    rng = np.random.default_rng((_SEED, number))
    configs = _configs(rng)
    parameters = list(configs[0])
    ranks, sizes = _codes(configs, parameters)
    logs = _surface(rng, ranks, sizes)
    failed = _failures(rng, ranks, sizes)
    trials = [
        Trial(config, Status.CRASH, reason="made up")
        if fails
        else Trial(config, value=float(value), metrics={"time": float(value)})
        for config, value, fails in zip(configs, np.exp(logs), failed, strict=True)
    ]
    return RecordedSpace(trials, f"synthetic {number}", "ms")


def _configs(rng: np.random.Generator) -> list[Config]:
    """The legal configs of a space with two or three constraints."""
    while True:
        count = int(rng.integers(6, 10))
        kinds = [_VALUES[at] for at in rng.choice(len(_VALUES), size=count, replace=False)]
        parameters = [Parameter(f"p{at}", values) for at, values in enumerate(kinds)]
        sized = [p for p in parameters if isinstance(p.values[0], int) and len(p.values) > 3]
        if len(sized) < 4:
            continue
        chosen = [sized[at] for at in rng.permutation(len(sized))]
        (a, b), (c, d) = chosen[:2], chosen[2:4]
        product = int(np.quantile(np.outer(_numbers(a), _numbers(b)), rng.uniform(0.6, 0.9)))
        least = int(np.quantile(np.outer(_numbers(a), _numbers(b)), rng.uniform(0.05, 0.25)))
        constraints = [f"{a.name} * {b.name} <= {product}", f"{a.name} * {b.name} >= {least}"]
        if rng.random() < 0.6:
            constraints.append(f"{c.name} % {d.name} == 0 or {d.name} <= 2")
        space = ParameterSpace(parameters, constraints)
        try:
            size = space.count()
        except SpaceError:  # its constraints exclude each other
            continue
        if _SMALLEST <= size <= _LARGEST:
            return list(space.enumerate())


def _numbers(parameter: Parameter) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array(parameter.values, dtype=float)


Table = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Column = np.ndarray[tuple[int], np.dtype[np.float64]]


def _codes(configs: Sequence[Config], parameters: Sequence[str]) -> tuple[Table, Table]:
    """For each config: ranks of values from 0 to 1, and logarithms of sizes."""
    ranks, sizes = [], []
    for name in parameters:
        values = [config[name] for config in configs]
        listed = list(dict.fromkeys(values))
        if not isinstance(listed[0], str):
            listed.sort()
        places = np.array([listed.index(value) for value in values], dtype=float)
        ranks.append(places / max(1, len(listed) - 1))
        number = [value if type(value) is int and value > 0 else 1 for value in values]
        sizes.append(np.log2(np.array(number, dtype=float)))
    return np.stack(ranks, axis=1), np.stack(sizes, axis=1)


def _surface(rng: np.random.Generator, ranks: Table, sizes: Table) -> Column:
    """Logarithms of times: the larger of two bottlenecks, and what comes on top."""
    count = ranks.shape[1]
    bottlenecks = []
    for _ in range(2):
        importance = rng.gamma(0.6, 0.5, size=count)  # few parameters matter much
        best = rng.uniform(0, 1, size=count)
        steep = rng.uniform(0.8, 2.5, size=count)
        one = (importance * np.abs(ranks - best) ** steep).sum(axis=1)
        for i, j in combinations(range(count), 2):
            if rng.random() < 0.3:
                tilt = rng.normal(0.0, 0.5)
                one += (
                    rng.gamma(0.6, 0.6) * (ranks[:, i] - best[i] + tilt * (ranks[:, j] - 0.5)) ** 2
                )
        bottlenecks.append(one + rng.uniform(0, 0.4))
    logs = np.maximum(*bottlenecks) + 0.15 * np.minimum(*bottlenecks)
    used = sizes @ rng.choice([0.0, 0.5, 1.0], size=count)  # of a resource, such as shared memory
    for share in (0.5, 0.8):
        logs += rng.uniform(0.05, 0.35) * (used > np.quantile(used, share))
    for at in range(count):  # single values that do well or badly, whatever their size
        values = np.unique(ranks[:, at])
        effects = rng.normal(0, 0.06, size=len(values)) * (rng.random(len(values)) < 0.5)
        logs += effects[np.searchsorted(values, ranks[:, at])]
    tail = rng.random(len(logs)) < 0.03
    logs += tail * rng.exponential(1.0, size=len(logs))
    logs += rng.normal(0, rng.uniform(0.005, 0.03), size=len(logs))
    return np.asarray(logs, dtype=float)


def _failures(
    rng: np.random.Generator, ranks: Table, sizes: Table
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """A region that fails, such as of too many registers, and single failures."""
    used = sizes @ rng.uniform(0, 1, size=sizes.shape[1])
    region = used > np.quantile(used, 1 - rng.uniform(0, 0.2))
    single = rng.random(len(ranks)) < rng.uniform(0, 0.02)
    return np.asarray(region | single, dtype=bool)
