"""The loss after 200 training steps: how far from a run in float64, with our kernels and without.

A small CNN and a small transformer, the same weights and data in three runs: plain PyTorch in
float64, plain PyTorch in float32, and float32 with a kernel of ours for every call that has one,
faster or not. A single difference may be small by luck, so there are several seeds and their root
mean square counts. Writes ``bench/results/torch_loss_<arch>.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import machine
import torch_hook
from skipjack.native import cpu
from torch_models import SMALL, Model, Place, loss_of, train
from torch_summary import share

NAME = "torch_loss"
MOST = 2.0
"""Times the difference of plain float32 that ours may have."""
_HELD = 10**6
"""The seed of the batch on which the loss is taken."""
Record = dict[str, Any]


def loss_after(model: Model, place: Place, seed: int, steps: int, size: int) -> float:
    """On one more batch, the same for every place."""
    network = model.network(place, seed)
    network.train()
    optimizer = torch.optim.SGD(network.parameters(), lr=model.rate)
    for at in range(steps):
        train(network, optimizer, model.batch(size, place, seed * steps + at))
    inputs, targets = model.batch(4 * size, place, _HELD)
    with torch.no_grad():
        return float(loss_of(network(inputs), targets))


def compare(model: Model, place: Place, seeds: int, steps: int, size: int) -> Record:
    """The runs of every seed, and the two root mean squares."""
    exact_place = Place(place.device, "f64")
    exact, plain = list[float](), list[float]()
    ours: list[float] = []
    calls = {"hits": 0, "calls": 0}
    forced = torch_hook.enabled(policy="db", force=True)
    forced()
    loss_after(model, place, 0, 1, size)  # all kinds of calls are decided about here
    for seed in range(seeds):
        torch_hook.undone()
        exact.append(loss_after(model, exact_place, seed, steps, size))
        plain.append(loss_after(model, place, seed, steps, size))
        forced()
        seen = torch_hook.calls_during(_run(ours, model, place, seed, steps, size))
        calls = {name: count + seen[name] for name, count in calls.items()}
    torch_hook.undone()
    off = [float(np.sqrt(np.mean(np.subtract(run, exact) ** 2))) for run in (plain, ours)]
    return {
        "model": model.name,
        "seeds": seeds,
        "steps": steps,
        "batch": size,
        "losses": {"f64": exact, "plain": plain, "ours": ours},
        "plain_off": off[0],
        "ours_off": off[1],
        "ratio": off[1] / off[0] if off[0] else 0.0,
        "calls": calls,
        "ops": seen["ops"],
    }


def _run(
    into: list[float], model: Model, place: Place, seed: int, steps: int, size: int
) -> Callable[[], None]:
    return lambda: into.append(loss_after(model, place, seed, steps, size))


def line(record: Record) -> str:
    losses = record["losses"]["f64"]
    return (
        f"{record['model']:<18} loss {np.mean(losses):.4f} after {record['steps']} steps; off by "
        f"{record['plain_off']:.2e} plain, {record['ours_off']:.2e} ours, ratio "
        f"{record['ratio']:.2f} (at most {MOST:.0f}) over {record['seeds']} seeds; "
        f"{share(record['calls']):.1%} of {record['calls']['calls']} calls were hits"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print, write; exit code 1 if a loss is too far off."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(SMALL))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32", choices=("f32", "f16", "bf16"))
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    place = Place(args.device, args.dtype)
    records = []
    with torch_hook.no_banks():
        for name in args.models.split(","):
            records.append(compare(SMALL[name], place, args.seeds, args.steps, args.batch))
            print(line(records[-1]), flush=True)
            for op, seen in records[-1]["ops"].items():
                print(f"  {op:<32} {seen['hits']} of {seen['calls']} calls hit, last seed")
    label = cpu.detect().arch if args.device == "cpu" else args.device
    label += f"_{args.threads}" if args.threads > 1 else ""
    result = machine.header(NAME, cpu.detect(args.threads), range(args.threads))
    machine.write_result(
        args.json or machine.RESULTS / f"{NAME}_{label}.json", result | {"cases": records}
    )
    return 0 if all(record["ratio"] <= MOST for record in records) else 1


if __name__ == "__main__":
    sys.exit(main())
