"""One case of the end-to-end benchmark in a process of its own; its last line is a JSON record.

``run`` makes the steps of a network and knows nothing of Skipjack: ``skipjack exec`` tunes it.
``time`` makes them with the hook enabled and undone by turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from math import isfinite

import torch
from torch import Tensor

import torch_models
from torch_models import FORWARD, MODELS, MODES, SMALL, Place
from torch_rounds import Pace, Record, Rounds, interleave

PLAIN, HOOK = "plain", "hook"
_RUN_STEPS = 2


def run(model: str, modes: Sequence[str], batch: int, place: Place) -> Record:
    """A program as users have it."""
    started = time.monotonic()
    for mode in modes:
        step = torch_models.step_of(_model(model), mode, batch, place)
        for _ in range(_RUN_STEPS):
            step()
        place.synchronize()
    return {"seconds": round(time.monotonic() - started, 2)}


def time_case(model: str, mode: str, batch: int, place: Place, pace: Pace) -> Record:
    """Steps with and without what the user bank has."""
    from torch_hook import calls_during, enabled, undone

    step = torch_models.step_of(_model(model), mode, batch, place)
    states = {PLAIN: undone, HOOK: enabled(policy="db")}
    rounds = interleave(states, step, pace, place.synchronize)
    states[HOOK]()
    calls = calls_during(step)
    error = _difference(step, states) if mode == FORWARD else None
    states[PLAIN]()
    if not isfinite(float(step().double().sum())):
        raise SystemExit("the result is not finite")
    return {**_measured(rounds), "calls": calls, "relative_error": error}


def _model(name: str) -> torch_models.Model:
    return {**MODELS, **SMALL}[name]


def _measured(rounds: Rounds) -> Record:
    return {
        "ms": {name: round(rounds.median_s(name) * 1e3, 4) for name in (PLAIN, HOOK)},
        "speedup": rounds.ratio(PLAIN, HOOK).to_json(),
        "rounds_ms": {
            name: [round(one * 1e3, 4) for one in seconds]
            for name, seconds in rounds.seconds.items()
        },
    }


def _difference(step: Callable[[], Tensor], states: dict[str, Callable[[], None]]) -> float:
    """Of the results with the hook from plain ones, by their norms."""
    found = {}
    for name, enter in states.items():
        enter()
        found[name] = step().double()
    difference = (found[HOOK] - found[PLAIN]).norm() / found[PLAIN].norm()
    return float(f"{float(difference):.2e}")


def main(argv: Sequence[str] | None = None) -> int:
    """What the benchmark starts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("run", "time"))
    parser.add_argument("model", choices=(*MODELS, *SMALL))
    parser.add_argument("modes", help=f"of {', '.join(MODES)}, with a comma between")
    parser.add_argument("batch", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32", choices=tuple(torch_models.DTYPES))
    parser.add_argument("--seconds", type=float, default=10.0, help="of timing")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    place, modes = Place(args.device, args.dtype), args.modes.split(",")
    if args.action == "run":
        record = run(args.model, modes, args.batch, place)
    else:
        pace = Pace(seconds=args.seconds)
        record = time_case(args.model, modes[0], args.batch, place, pace)
    print(json.dumps(record))
    return 0


if __name__ == "__main__":
    sys.exit(main())
