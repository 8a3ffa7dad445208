"""An engine whose workers are played: every device of Tuna's list is there, and work takes no time.

What MIOpen does is done by the stand-in for its driver, in this process; of Skipjack's own solvers
the results are made up.
"""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from skipjack.core import Device
from skipjack.fleet.images import ImageIdentity, ready_engine
from skipjack.fleet.images.names import identity
from skipjack.fleet.model import Done, Host, JobKind, JobStage, RunningLog, Slot, Task, TaskOutcome
from skipjack.fleet.work.miopen_jobs import MiopenJobs, pass_on
from skipjack.fleet.work.task_context import DeviceAssignment
from skipjack.native import cpu
from skipjack.settings import Settings, load_settings
from skipjack.solvers.miopen import Finished, Invocation
from skipjack.testing import miopen_driver

GPUS = {"gfx900": (56, 60, 64), "gfx906": (60, 64), "gfx908": (60, 120)}
FACTS = '{"format":1,"tables":{}}'


class PlayedFleet:
    """Takes the place of the local engine and of Ray's; remembers what each was asked for."""

    name = "played"
    made: list[dict[str, Any]]
    """What engines were made with, in order; a subclass of a test's own has its own list."""

    def __init__(self, *words: object, image: str = "", **more: object) -> None:
        counts: dict[str, object] = dict(zip(("builders", "evaluators"), words[1:], strict=False))
        named = {} if isinstance(words[0], Settings) else {"address": words[0]}
        self.made.append({**counts, **more, **named, "image": image})
        self.image: ImageIdentity | None = identity(ready_engine(), image) if image else None
        hips = [
            Device("hip", arch, units, serial=f"{arch}-{units}")
            for arch, known in GPUS.items()
            for units in known
        ]
        self._devices = (cpu.detect(), *hips)
        self._waiting: list[tuple[str, Task]] = []
        self._miopen = _Miopen(load_settings())

    def hosts(self) -> Sequence[Host]:
        return [Host("played", 8, 1 << 34, self._devices)]

    def slots(self) -> Sequence[Slot]:
        """All that were asked for: none of a stage that is not wanted."""
        asked = self.made[-1]
        builders = [Slot("build", JobStage.BUILD, "played")] if asked["builders"] != 0 else []
        measured = self._devices if asked["evaluators"] != 0 else ()
        evaluators = [
            Slot(device.name, JobStage.EVALUATE, "played", (device,), device.name)
            for device in measured
        ]
        return [*builders, *evaluators]

    def submit(self, slot: str, tasks: Sequence[Task]) -> None:
        self._waiting += [(slot, task) for task in tasks]

    def poll(self, timeout_s: float) -> list[Done]:
        if not self._waiting:
            time.sleep(min(timeout_s, 0.02))
        done = [Done(slot, task.job, self._perform(task)) for slot, task in self._waiting]
        self._waiting.clear()
        return done

    def heard(self) -> Sequence[RunningLog]:
        return []

    def cancel(self, jobs: Sequence[int]) -> None:
        self._waiting = [(slot, task) for slot, task in self._waiting if task.job not in jobs]

    def close(self) -> None:
        self._miopen.close()

    def _perform(self, task: Task) -> TaskOutcome:
        if task.plan.by_miopen:
            return pass_on(task) if task.stage is JobStage.BUILD else self._miopen.on_gpu(task)
        if task.stage is JobStage.BUILD:
            return TaskOutcome(task.job, task.stage, facts=FACTS)
        result: dict[str, Any] = {"status": "banked"}
        if task.plan.kind is JobKind.FIND:
            found = {"status": "ok", "workspace_bytes": 0, "config": {}, "spread": 0.01}
            result["solvers"] = [{"solver": "tiled", "time_ns": 5e4, "samples": 24, **found}]
        return TaskOutcome(
            task.job, task.stage, finished=True, facts=FACTS, trials=1, best_ns=5e4, result=result
        )


class _Miopen(MiopenJobs):
    """Its driver is the stand-in, whatever device it should run on."""

    def on_gpu(self, task: Task) -> TaskOutcome:
        self._device = task.device.name
        return self.evaluate(task, DeviceAssignment(task.device, (), (task.device.name,), "hip:0"))

    def _run(self, invocation: Invocation) -> Finished:
        device = {miopen_driver.DEVICE_VARIABLE: self._device}
        with redirect_stdout(io.StringIO()) as printed:
            miopen_driver.main(invocation.argv[1:], {**invocation.environment, **device})
        return Finished(printed.getvalue(), "")


def driver_in(folder: Path) -> str:
    """The path of a driver, which is looked for and not run."""
    return str(miopen_driver.install(folder))
