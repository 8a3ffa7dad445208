"""What the hook itself costs: small calls that miss and hit, and steps with nothing banked.

Microseconds a call at 16x16 with the hook undone, enabled without a kernel (a miss) and with one
(a hit), in interleaved rounds of one process; then steps of a small CNN and of a small transformer
with the hook enabled and no kernel known, against steps with the hook undone; then whole programs
that import PyTorch and multiply once, without the hook and with it. On CPUs the time is
the thread's or the program's own, which other programs on the machine change little. Writes
``bench/results/torch_overhead_<arch>.json``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import machine
import torch_hook
from skipjack.native import cpu
from torch_models import DTYPES, MODES, SMALL, Place, step_of
from torch_rounds import Pace, Record, Rounds, cpu_clock, interleave

NAME = "torch_overhead"
PLAIN, MISS, HIT = "plain", "miss", "hit"
SIZE = 16
MISS_BAR_US = 0.5
STEP_BAR = 1.02
_BATCH = 16
_PROGRAM = "import torch; a = torch.ones(16, 16); a @ a"


def small_calls(place: Place) -> dict[str, Callable[[], object]]:
    """Products of matrices that are computed in less time than it takes to call them."""
    how: Record = {"device": place.device, "dtype": DTYPES[place.dtype]}
    a, b, bias = (torch.randn(*size, **how) for size in ((SIZE, SIZE),) * 2 + ((SIZE,),))
    stack = torch.randn(4, SIZE, SIZE, **how)
    return {
        "mm": lambda: torch.mm(a, b),
        "addmm": lambda: torch.addmm(bias, a, b),
        "bmm": lambda: torch.bmm(stack, stack),
    }


def call_record(name: str, call: Callable[[], object], pace: Pace, place: Place) -> Record:
    """One operation in the three states."""
    states = {
        PLAIN: torch_hook.undone,
        MISS: torch_hook.enabled(policy="incremental", ops=("_softmax",)),
        HIT: torch_hook.enabled(policy="db", force=True),
    }
    states[HIT]()
    call()
    is_hit = bool(torch_hook.calls_during(call)["hits"])
    if not is_hit:
        del states[HIT]
    rounds = interleave(states, call, pace, place.synchronize)
    torch_hook.undone()
    record: Record = {
        "op": name,
        "us": {state: round(rounds.median_s(state) * 1e6, 3) for state in states},
        "more_us": {state: rounds.more_us(state, PLAIN) for state in states if state != PLAIN},
        "speedup": {
            state: rounds.ratio(PLAIN, state).to_json() for state in states if state != PLAIN
        },
    }
    return record


def call_line(record: Record) -> str:
    parts = [f"{record['op']:<6} plain {record['us'][PLAIN]:7.3f} us"]
    for state, more in record["more_us"].items():
        parts.append(
            f"{state} {record['us'][state]:7.3f} ({more['median']:+.3f} "
            f"[{more['low']:+.3f}, {more['high']:+.3f}])"
        )
    if HIT not in record["us"]:
        parts.append("no kernel, so no hit")
    return ", ".join(parts)


def step_record(model: str, mode: str, pace: Pace, place: Place) -> Record:
    """Steps with the hook and nothing banked, against steps without it."""
    step = step_of(SMALL[model], mode, _BATCH, place)
    states = {PLAIN: torch_hook.undone, MISS: torch_hook.enabled(policy="db")}
    rounds = interleave(states, step, pace, place.synchronize)
    states[MISS]()
    calls = torch_hook.calls_during(step)
    torch_hook.undone()
    return {
        "step": f"{model} {mode}",
        "ms": {state: round(rounds.median_s(state) * 1e3, 4) for state in states},
        "cost": rounds.ratio(MISS, PLAIN).to_json(),
        "calls": calls,
    }


def step_line(record: Record) -> str:
    cost = record["cost"]
    return (
        f"{record['step']:<24} plain {record['ms'][PLAIN]:8.3f} ms, hook "
        f"{record['ms'][MISS]:8.3f}, cost {cost['ratio']:.4f} "
        f"[{cost['low']:.4f}, {cost['high']:.4f}] "
        f"over {cost['pairs']} pairs, {record['calls']['calls']} calls a step"
    )


def start_record(pairs: int) -> Record:
    """Programs that do next to nothing, by turns without the hook and with it."""
    found: dict[str, list[float]] = {PLAIN: [], MISS: []}
    for state in (PLAIN, MISS):
        _program_s(state)  # byte code, caches of files, and the hook's own code are made here
    for at in range(pairs):
        for state in (PLAIN, MISS)[:: -1 if at % 2 else 1]:
            found[state].append(_program_s(state))
    rounds = Rounds(found)
    return {
        "program": _PROGRAM,
        "cpu_ms": {state: round(rounds.median_s(state) * 1e3, 1) for state in found},
        "more_ms": {
            name: round(value / 1e3, 1) if name != "pairs" else value
            for name, value in rounds.more_us(MISS, PLAIN).items()
        },
    }


def _program_s(state: str) -> float:
    """CPU seconds of a program, its children's included."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"SKIPJACK_TORCH": "1" if state == MISS else "0"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _PROGRAM], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def start_line(record: Record) -> str:
    more = record["more_ms"]
    return (
        f"a program that multiplies once: plain {record['cpu_ms'][PLAIN]:.0f} ms of CPU time, hook "
        f"{more['median']:+.0f} [{more['low']:+.0f}, {more['high']:+.0f}]"
    )


def bars(calls: Sequence[Record], steps: Sequence[Record]) -> Record:
    """Whether what is asked for holds, by the medians."""
    mm = next((record for record in calls if record["op"] == "mm"), None)
    return {
        "miss_us_at_most": MISS_BAR_US,
        "miss_holds": mm and mm["more_us"][MISS]["median"] <= MISS_BAR_US,
        "hit_holds": mm and HIT in mm["more_us"] and mm["more_us"][HIT]["median"] < 0.0,
        "step_at_most": STEP_BAR,
        "steps_hold": all(record["cost"]["ratio"] <= STEP_BAR for record in steps),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing, for each line")
    parser.add_argument("--rounds", type=int, default=400, help="at most, for each line")
    parser.add_argument("--quick", action="store_true", help="a second for each line")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    machine.library_threads(1)
    torch.set_num_threads(1)
    place = Place(args.device, "f32" if args.device == "cpu" else "f16")
    seconds = 1.0 if args.quick else args.seconds
    calls, steps = [], []
    clock = cpu_clock if args.device == "cpu" else time.perf_counter
    with torch_hook.no_banks():
        for model in SMALL:
            for mode in MODES:
                pace = Pace(block_s=0.01, seconds=seconds, most=args.rounds, clock=clock)
                steps.append(step_record(model, mode, pace, place))
                print(step_line(steps[-1]), flush=True)
        for name, call in small_calls(place).items():
            pace = Pace(block_s=0.005, seconds=seconds, most=args.rounds, clock=clock)
            calls.append(call_record(name, call, pace, place))
            print(call_line(calls[-1]), flush=True)
        start = start_record(4 if args.quick else 20)
        print(start_line(start), flush=True)
    result = machine.header(NAME, cpu.detect(), range(1)) | {
        "size": SIZE,
        "bars": bars(calls, steps),
        "calls": calls,
        "steps": steps,
        "start": start,
    }
    print(", ".join(f"{name}: {value}" for name, value in result["bars"].items()))
    label = cpu.detect().arch if args.device == "cpu" else args.device
    machine.write_result(args.json or machine.RESULTS / f"{NAME}_{label}.json", result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
