"""The policy on LoopTune's 25 products beside the fixed recipe, NumPy, OpenBLAS, MKL and TVM.

One core, float32, nothing is measured before: the policy plays, and what it made is timed in
interleaved rounds with everybody else. ``untuned`` is the nest that LoopTune starts from as its
backend would run it (vectorised and unrolled by `finish`); LoopTune's authors report 2.97 times
that as the mean over these shapes. With ``--tvm`` TVM tunes first, a minute a shape.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import machine
import metaschedule
import shapes
from contenders import (
    LIBRARIES,
    Field,
    add_library,
    add_tvm,
    build_nest,
    check,
    make_arrays,
    recipe,
)
from loop_summary import estimate
from skipjack.core import Config, Problem
from skipjack.learn.loops import Preset, loop_game
from skipjack.learn.policy import FOLDER, Policy, planned, propose, read_policy
from skipjack.native import cpu
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule
from skipjack.tuning.study import timing_cores
from stand import Plan, Stand

POLICY, LOOPTUNE, UNTUNED, RECIPE = "policy", "policy looptune", "untuned", "recipe"
TVM_FACTS = ("tvm", "trials", "trials_valid", "tuning_seconds", "gflops")
"""What is kept of TVM's tuning; GFLOP/s by its own account."""
DOCUMENT = 2.97
"""The document's gain over its untuned nests, geometric mean."""


def line_up(
    shape: shapes.Shape, policies: Mapping[Preset, Policy], stand: Stand, tvm_cache: Path
) -> tuple[Field, dict[str, str]]:
    """Everybody's kernels, checked; and the schedules of ours."""
    problem = shape.problem
    arrays = make_arrays(problem)
    there = Field()
    untuned = loop_game(problem, stand.device, Preset.LOOPTUNE)
    configs = {UNTUNED: _config(untuned.built(untuned.start()).text()), RECIPE: recipe(stand)}
    for name, preset in ((POLICY, Preset.FULL), (LOOPTUNE, Preset.LOOPTUNE)):
        if preset in policies:
            configs[name] = _config(_scheduled(policies[preset], problem, stand).text())
    for name, config in configs.items():
        there.kernels[name] = build_nest(problem, config, stand, arrays)
    for name in LIBRARIES:
        add_library(there, name, problem, stand, arrays)
    add_tvm(there, problem, stand, arrays, tvm_cache)
    check(there, problem, arrays)
    return there, {name: str(config["schedule"]) for name, config in configs.items()}


def _scheduled(policy: Policy, problem: Problem, stand: Stand) -> Schedule:
    """What a policy makes of a shape without a measurement."""
    if policy.preset is Preset.FULL:
        return propose(problem, stand.device, 1, policy)[0]
    return planned(policy, loop_game(problem, stand.device, policy.preset))[0].schedule


def _config(text: str) -> Config:
    return Config(schedule=text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--policy", type=Path, default=FOLDER, help="a folder of policies")
    parser.add_argument("--quick", action="store_true", help="5 shapes, 20 rounds")
    parser.add_argument("--tvm", action="store_true", help="tune missing shapes with TVM first")
    parser.add_argument("--tvm-trials", type=int, default=metaschedule.TRIALS)
    parser.add_argument("--tvm-cache", type=Path, default=metaschedule.CACHE / "tvm")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(argv)
    machine.library_threads(1)
    device = cpu.detect()
    stand = Stand(device, timing_cores(load_settings(), 1))
    plan = Plan(rounds=20) if options.quick else Plan(rounds=40)
    files = {preset: options.policy / f"{preset}.npz" for preset in Preset}
    policies = {preset: read_policy(path) for preset, path in files.items() if path.is_file()}
    records = []
    chosen = shapes.ALL[::5] if options.quick else shapes.ALL
    kernels = options.tvm_cache.resolve()
    if options.tvm:
        metaschedule.tune_missing(chosen, kernels, stand.cores[0], options.tvm_trials)
    for shape in chosen:
        there, schedules = line_up(shape, policies, stand, kernels)
        rounds = stand.time(there.kernels, plan)
        times = {name: rounds.time_ns(name) for name in there.kernels}
        records.append(
            {
                "shape": shape.name,
                "time_ns": {name: round(time_ns, 1) for name, time_ns in times.items()},
                "schedules": schedules,
                "tvm": {name: there.tvm[name] for name in TVM_FACTS if name in there.tvm},
                "skipped": there.skipped,
            }
        )
        rates = {name: shape.flops / time_ns for name, time_ns in times.items()}
        shown = ", ".join(f"{name} {rate:.1f}" for name, rate in rates.items())
        print(f"{shape.name}: {shown} GFLOP/s", flush=True)
        del there
        stand.clear()
    result = machine.header("loops_shapes", device, stand.cores)
    result |= {"summary": summarize(records), "shapes": records}
    machine.write_result(options.output, result)
    return 0


def summarize(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How many times faster the policies are than the others; the bar is 0.99 of the recipe."""
    found: dict[str, Any] = {"document over its untuned nests": DOCUMENT}
    for own in (POLICY, LOOPTUNE):
        for rival in (RECIPE, UNTUNED, *LIBRARIES, "tvm"):
            there = [record for record in records if {own, rival} <= record["time_ns"].keys()]
            if there:
                times = [record["time_ns"] for record in there]
                logs = [np.array([np.log(each[rival] / each[own])]) for each in times]
                over = estimate([record["shape"] for record in there], logs).to_json()
                found[f"{own} over {rival}"] = over | {"shapes": len(there)}
    against_recipe = found.get(f"{POLICY} over {RECIPE}")
    found["met"] = against_recipe is not None and against_recipe["mean"] >= 0.99
    return found


if __name__ == "__main__":
    sys.exit(main())
