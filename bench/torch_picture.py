"""Draws a training step of a small CNN, operation by operation, on plain PyTorch and tuned.

From an empty user directory the network is trained for some steps with ``policy="incremental"``;
then steps with the hook enabled and undone are timed by turns, each operation for itself. On one
thread the time is the thread's own, which other programs on the machine change little. Writes
``bench/results/torch_picture_<arch>.json`` and draws ``docs/images/torch-step.svg`` from it;
``--draw`` only draws.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import machine
import skipjack.torch
import torch_hook
from skipjack.native import cpu
from skipjack.report.sweep import BEST, QUIET, figure, picture
from torch_models import MODELS, SMALL, TRAIN, Place, step_of
from torch_rounds import Pace, cpu_clock, interleave

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAME = "torch_picture"
PICTURE = Path(__file__).resolve().parents[1] / "docs" / "images" / "torch-step.svg"
PLAIN, TUNED = "plain", "tuned"
_BATCH = 16
_TUNING_STEPS = 2
_STEPS = 40
"""That are timed operation by operation, of each kind."""
_HOOKED = "#5c7cba"
_COLOURS = {"skipjack": BEST, "hooked": _HOOKED, "other": QUIET}
_WORDS = {
    "skipjack": "Skipjack's kernel",
    "hooked": "PyTorch's kernel",
    "other": "PyTorch's kernel, operation not hooked",
}
_LABELS = {
    "convolution": "conv",
    "convolution_backward": "conv backward",
    "native_batch_norm": "norm",
    "native_batch_norm_backward": "norm backward",
    "max_pool2d_with_indices": "pool",
    "max_pool2d_with_indices_backward": "pool backward",
    "threshold_backward": "relu backward",
}
_LABELLED = 0.04
"""The part of a plain step that an operation must take to have its name written on it."""

Record = dict[str, Any]
_ROWS = {PLAIN: 1.0, TUNED: 0.0}
_HEIGHT = 0.5
_BAR: Record = {"edgecolor": "white", "linewidth": 0.4}
_TEXT: Record = {"ha": "center", "va": "center", "fontsize": 7.5, "color": "white"}
_LEGEND: Record = {"frameon": False, "fontsize": 8.5}


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


def draw(record: Record) -> Figure:
    """Both steps to one scale; what became of the longer operations is joined."""
    drawn = figure(9.6, 3.1)
    axes = drawn.subplots()
    total_ms = sum(one["us"][PLAIN] for one in record["operations"]) / 1e3
    begins = dict.fromkeys(_ROWS, 0.0)
    for one in record["operations"]:
        ends = {row: begins[row] + one["us"][row] / 1e3 for row in _ROWS}
        for row, y in _ROWS.items():
            by = "hooked" if row == PLAIN and one["by"] == "skipjack" else one["by"]
            axes.barh(y, ends[row] - begins[row], _HEIGHT, begins[row], color=_COLOURS[by], **_BAR)
        if ends[PLAIN] - begins[PLAIN] > _LABELLED * total_ms:
            _join(axes, begins, ends)
            _label(axes, one, begins, ends, _LABELLED * total_ms)
        begins = ends
    _frame(axes, record)
    return drawn


def _join(axes: Axes, begins: Mapping[str, float], ends: Mapping[str, float]) -> None:
    top, bottom = _ROWS[PLAIN] - _HEIGHT / 2, _ROWS[TUNED] + _HEIGHT / 2
    across = [begins[PLAIN], ends[PLAIN], ends[TUNED], begins[TUNED]]
    axes.fill(across, [top, top, bottom, bottom], color=QUIET, alpha=0.15, linewidth=0)


def _label(
    axes: Axes,
    one: Record,
    begins: Mapping[str, float],
    ends: Mapping[str, float],
    least_ms: float,
) -> None:
    """Its name above; its gain below, where there is room for it."""
    name = _LABELS.get(one["op"], one["op"].strip("_").replace("_", " "))
    middle = {row: (begins[row] + ends[row]) / 2 for row in _ROWS}
    axes.text(middle[PLAIN], _ROWS[PLAIN], name.replace(" ", "\n"), **_TEXT)
    if one["by"] == "skipjack" and ends[TUNED] - begins[TUNED] > 0.85 * least_ms:
        gain = one["us"][PLAIN] / one["us"][TUNED]
        axes.text(middle[TUNED], _ROWS[TUNED], f"{gain:.1f}x", **_TEXT)


def _frame(axes: Axes, record: Record) -> None:
    from matplotlib.patches import Patch

    names = {PLAIN: "python train.py", TUNED: "skipjack exec -- python train.py"}
    labels = [f"{names[row]}\n{record['ms'][row]:.2f} ms a step" for row in _ROWS]
    axes.set_yticks(list(_ROWS.values()), labels)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_ylim(-0.45, 1.45)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("milliseconds in operations, in the order of the step")
    shown = [Patch(color=_COLOURS[by], label=words) for by, words in _WORDS.items()]
    axes.legend(handles=shown, loc="upper center", bbox_to_anchor=(0.5, 1.22), ncols=3, **_LEGEND)


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
        result = json.loads(args.draw.read_text())
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
    data = picture(lambda: draw(result), NAME, args.picture.suffix.lstrip("."))
    args.picture.parent.mkdir(parents=True, exist_ok=True)
    args.picture.write_bytes(data or b"")
    print(f"drawn to {args.picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
