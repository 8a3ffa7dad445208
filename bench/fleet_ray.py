"""What the Ray engine costs per trial, beside the local engine and a bare call of an actor.

A task holds a round of 32 trials that take no time, and one task is under way at a time. Writes
``bench/results/fleet_ray_<arch>.json``. Part of ``make bench-fleet``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fleet_record import Record, in_words, spread, write
from fleet_stand_in import importable_in_workers, make_empty
from skipjack.execute import wire
from skipjack.fleet.engines import LocalEngine, RayEngine
from skipjack.fleet.model import Done, Engine, JobPlan, JobStage, Task
from skipjack.native import cpu
from skipjack.settings import Settings

GOAL_MS, TRIALS = 0.1, 32
_TASKS = 200


class Echo:
    """An actor that gives back what it is given."""

    def echo(self, data: bytes) -> bytes:
        """The same."""
        return data


def engine_ms(engine: Engine, tasks: int) -> float:
    """Milliseconds per trial through an engine whose worker has an empty kernel."""
    (slot,) = [one.name for one in engine.slots() if one.stage is JobStage.BUILD]
    device = cpu.detect(1)
    plan = JobPlan("matmul:8x8x8", device.name, budget=TRIALS, round=TRIALS)
    started = time.perf_counter()
    for job in range(tasks):
        engine.submit(slot, [Task(job, JobStage.BUILD, plan, device)])
        done: list[Done] = []
        while not done:
            done = engine.poll(10.0)
        if done[0].outcome is None:
            raise RuntimeError(done[0].lost)
    return 1e3 * (time.perf_counter() - started) / tasks / TRIALS


def actor_ms(ray: Any, actor: Any, tasks: int) -> float:
    """Milliseconds per trial for calls of an actor with as many bytes as a task has."""
    device = cpu.detect(1)
    task = Task(1, JobStage.BUILD, JobPlan("matmul:8x8x8", device.name), device).message()
    data = wire.encode(task.body, task.blobs)
    started = time.perf_counter()
    for _ in range(tasks):
        ray.get(actor.echo.remote(data))
    return 1e3 * (time.perf_counter() - started) / tasks / TRIALS


@contextlib.contextmanager
def contenders(home: Path) -> Iterator[dict[str, Callable[[int], float]]]:
    """A Ray with an actor of ours and one of the engine's, and a local engine."""
    # A cluster of our own, whose token is in no file. Ray reads it when it is imported.
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray

    context: Any = ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    try:
        actor = ray.remote(Echo).options(num_cpus=0).remote()
        address = context.address_info["gcs_address"]
        settings = Settings(home)
        with (
            RayEngine(address, settings, builders=1, evaluators=0, make_worker=make_empty) as far,
            LocalEngine(settings, 1, 0, make_worker=make_empty) as near,
        ):
            yield {
                "ray engine": lambda tasks: engine_ms(far, tasks),
                "local engine": lambda tasks: engine_ms(near, tasks),
                "bare actor call": lambda tasks: actor_ms(ray, actor, tasks),
            }
    finally:
        ray.shutdown()


def measure(repeats: int, tasks: int) -> Record:
    """All of them in turns."""
    with (
        tempfile.TemporaryDirectory(prefix="fleet-ray-") as directory,
        contenders(Path(directory)) as runs,
    ):
        found: dict[str, list[float]] = {name: [] for name in runs}
        for run in runs.values():
            run(20)
        for _ in range(repeats):
            for name, run in runs.items():
                found[name].append(run(tasks))
    return {name: spread(values, 4) for name, values in found.items()}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="an impression, nothing is kept")
    options = parser.parse_args()
    importable_in_workers()
    found = measure(2 if options.quick else options.repeats, 50 if options.quick else _TASKS)
    for name, values in found.items():
        print(f"{name:16} {in_words(values)} ms per trial, {TRIALS} trials in a task")
    print(f"goal for the Ray engine: below {GOAL_MS} ms")
    if not options.quick:
        write("fleet_ray", {"goal_ms": GOAL_MS, "trials": TRIALS, "ms_per_trial": found})


if __name__ == "__main__":
    main()
