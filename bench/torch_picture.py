"""Draws a training step of a small CNN, operation by operation, on plain PyTorch and tuned.

From an empty user directory the network is trained for some steps with ``policy="incremental"``;
then steps with the hook enabled and undone are timed by turns, each operation for itself. On one
thread the time is the thread's own, which other programs on the machine change little. Writes
``bench/results/torch_picture_<arch>.json`` and draws ``docs/images/torch-step.svg`` from it;
``--draw`` only draws.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import machine
import skipjack.torch
import torch_hook
from skipjack.app import ReportRequest, read_report
from skipjack.native import cpu
from skipjack.report.figures import png, svg
from skipjack.report.views import report_of
from torch_models import MODELS, SMALL, TRAIN, Place, step_of
from torch_rounds import Pace, cpu_clock, interleave

NAME = "torch_picture"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "torch-step.svg"
PLAIN, TUNED = "plain", "tuned"
_BATCH = 16
_TUNING_STEPS = 2
_STEPS = 40
"""That are timed operation by operation, of each kind."""

Record = dict[str, Any]


class StepTimes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The operations of a step in order, each with its time and who computed it."""

    def __init__(self, clock: Callable[[], float], *, asks_who: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []
        self.seconds: list[float] = []
        self.hits: list[bool] = []
        """Whether it was a kernel of Skipjack's; without `asks_who`, which takes time, empty."""
        self._clock, self._asks_who = clock, asks_who

    def __torch_dispatch__(
        self,
        function: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        before = skipjack.torch.report().hits if self._asks_who else 0
        began = self._clock()
        result = function(*args, **(kwargs or {}))
        self.seconds.append(self._clock() - began)
        self.names.append(function.overloadpacket.__name__)
        if self._asks_who:
            self.hits.append(skipjack.torch.report().hits > before)
        return result


def measure(model: str, threads: int, seconds: float, pace: Pace) -> Record:
    """Tune, then time by turns: whole steps, and the operations of steps."""
    torch.set_num_threads(threads)
    step = step_of({**SMALL, **MODELS}[model], TRAIN, _BATCH, Place())
    with torch_hook.no_banks():
        torch_hook.enabled(policy="incremental", seconds=seconds)()
        for _ in range(_TUNING_STEPS):
            step()
        states = {PLAIN: torch_hook.undone, TUNED: torch_hook.enabled(policy="db")}
        rounds = interleave(states, step, pace)
        operations = _operations(step, states, pace.clock)
        torch_hook.undone()
    return {
        "model": model,
        "batch": _BATCH,
        "threads": threads,
        "tuning_seconds": seconds,
        "ms": {name: round(rounds.median_s(name) * 1e3, 4) for name in states},
        "speedup": rounds.ratio(PLAIN, TUNED).to_json(),
        "operations": operations,
    }


def _operations(
    step: Callable[[], object],
    states: Mapping[str, Callable[[], None]],
    clock: Callable[[], float],
) -> list[Record]:
    """In order, with medians over the steps."""
    times: dict[str, list[list[float]]] = {name: [] for name in states}
    for at in range(_STEPS):
        for name in tuple(states)[:: -1 if at % 2 else 1]:
            states[name]()
            step()
            with StepTimes(clock) as seen:
                step()
            times[name].append(seen.seconds)
    states[TUNED]()
    step()
    with StepTimes(clock, asks_who=True) as found:
        step()
    hooked = {one.decision.op.removeprefix("aten::") for one in skipjack.torch.report().calls}
    each = {name: [median(one) for one in zip(*times[name], strict=True)] for name in states}
    return [
        {
            "op": op,
            "by": "skipjack" if hit else "hooked" if op in hooked else "other",
            "us": {name: round(each[name][at] * 1e6, 3) for name in states},
        }
        for at, (op, hit) in enumerate(zip(found.names, found.hits, strict=True))
    ]


def drawn(path: Path, suffix: str) -> bytes:
    """A picture of a result: both steps to one scale."""
    figure = report_of(read_report(ReportRequest((str(path),)))).figure("before-and-after")
    return png(figure) if suffix == ".png" else svg(figure, "light", 960).encode()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, write, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="small_cnn", choices=[*SMALL, *MODELS])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--tuning-seconds", type=float, default=2.0, help="for each problem")
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing whole steps")
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw this result, no timing")
    parser.add_argument("--json", type=Path, help="where to write the result")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="an .svg or a .png")
    args = parser.parse_args(argv)
    if args.draw:
        path = args.draw
    else:
        machine.library_threads(args.threads)
        pace = Pace(
            seconds=args.seconds, clock=cpu_clock if args.threads == 1 else time.perf_counter
        )
        measured = measure(args.model, args.threads, args.tuning_seconds, pace)
        device = cpu.detect(args.threads)
        result = machine.header(NAME, device, range(args.threads)) | measured
        path = args.json or machine.RESULTS / f"{NAME}_{device.arch}.json"
        machine.write_result(path, result)
        found = result["speedup"]
        print(
            f"{args.model}: {result['ms'][PLAIN]:.3f} ms plain, {result['ms'][TUNED]:.3f} tuned, "
            f"{found['ratio']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
        )
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    args.picture.write_bytes(drawn(path, args.picture.suffix))
    print(f"drawn to {args.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
