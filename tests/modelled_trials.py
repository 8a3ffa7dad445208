"""Trials of made-up times, from which models learn without hardware."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from pathlib import Path

import numpy as np

from skipjack.core import Config, Device, Problem, Status, Study, Trial, protocol_for
from skipjack.learn.trials import MeasuredConfig, ProblemTrials
from skipjack.ledger import Ledger
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.solvers import find_solver

DEVICE = describe("haswell/1")
SOLVER = "packed"


def time_of(problem: Problem, config: Config) -> float:
    """Tiles that fit the problem are fast; tall ones too if it has many rows."""
    m, n, k = problem.shape
    high, wide = map(int, str(config["tile"]).split("x"))
    wide *= 8
    padded = -(-m // high) * high / m * -(-n // wide) * wide / n
    tall = 1.0 + 0.3 * abs(np.log2(high / 6)) * (m > 128) + 0.2 * abs(np.log2(wide / 16))
    return float(2.0 * m * n * k / 50.0 * padded * tall * (1.1 if config["pack_a"] else 1.0))


def problems(count: int, seed: int = 0) -> list[Problem]:
    """Products of many sizes."""
    rng = np.random.default_rng(seed)
    found: dict[str, Problem] = {}
    while len(found) < count:
        m, n, k = (int(2 ** rng.uniform(5, 9)) for _ in range(3))
        problem = parse(f"matmul:{m}x{n}x{k}")
        found[problem.key] = problem
    return list(found.values())


def trials_of(problem: Problem, count: int = 24, device: Device = DEVICE) -> ProblemTrials:
    """Some configs of a problem with their times; those with a block of 64 fail."""
    space = find_solver(SOLVER).space(problem, device)
    rng = np.random.default_rng(sum(problem.shape))
    configs = {
        **dict.fromkeys(space.promising(8)),
        **{space.sample(rng): None for _ in range(count)},
    }
    return ProblemTrials(problem, device, tuple(_measured(problem, one) for one in configs))


def _measured(problem: Problem, config: Config) -> MeasuredConfig:
    if config["k_block"] == 64 and config["unroll"] == 2:
        return MeasuredConfig(SOLVER, config, Status.CRASH, inf, "signal 11")
    return MeasuredConfig(SOLVER, config, time_ns=time_of(problem, config))


def fill_ledger(directory: Path, count: int) -> Path:
    """A user directory with a ledger of such trials."""
    with Ledger.open(directory) as ledger:
        ledger.add_device(DEVICE)
        for problem in problems(count):
            record_study(ledger, trials_of(problem))
    return directory


def record_study(ledger: Ledger, trials: ProblemTrials) -> None:
    solver = find_solver(SOLVER)
    study = Study(
        *(trials.problem, SOLVER, trials.device.class_key, "listed", 0, str(solver.version)),
        protocol=protocol_for(trials.device),
    )
    ledger.start_study(study, solver.version)
    ledger.log_tells(study.id, list(_told(trials)))


def _told(trials: ProblemTrials) -> Iterator[Trial]:
    for one in trials.measured:
        if one.time_ns < inf:
            yield Trial(one.config, value=one.time_ns, metrics={"time_ns": one.time_ns})
        else:
            yield Trial(one.config, one.status, reason=one.reason)
