"""Do all processes of a distributed training take the same kernels? Eight of them, on this machine.

Starts itself under torchrun (gloo, loopback). Each rank trains a small CNN and a small transformer
in DistributedDataParallel with the hook tuning what it does not know, all from one empty user
directory; then ranks compare what was decided about every call, and their weights.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import torch_hook
from torch_models import SMALL, Model, Place, train

Record = dict[str, Any]
_MARK = "torch_ranks: "
_STEPS = 3
_BATCH = 4


def weights_after(model: Model, rank: int) -> float:
    """The norm of the weights after some steps on data of this rank's own."""
    place = Place()
    network = DistributedDataParallel(model.network(place))
    optimizer = torch.optim.SGD(network.parameters(), lr=model.rate)
    for step in range(_STEPS):
        train(network, optimizer, model.batch(_BATCH, place, seed=100 * rank + step))
    return float(sum(one.double().norm() for one in network.parameters()))


def disagreements(ranks: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Calls about which ranks decided differently, with what each decided."""
    calls = {call for decided in ranks for call in decided}
    each = {call: [decided.get(call, "not seen") for decided in ranks] for call in sorted(calls)}
    return {call: decided for call, decided in each.items() if len(set(decided)) > 1}


def work(models: Sequence[str], seconds: float, *, force: bool) -> None:
    """What each rank does; the first one prints what came of it."""
    distributed.init_process_group("gloo")
    rank, count = distributed.get_rank(), distributed.get_world_size()
    torch_hook.enabled(
        policy="incremental", seconds=seconds, **({"force": True} if force else {})
    )()
    weights = [weights_after(SMALL[name], rank) for name in models]
    mine = {"decided": torch_hook.decided(), "weights": weights}
    torch_hook.undone()
    found: list[Any] = [None] * count
    distributed.all_gather_object(found, mine)
    if rank == 0:
        print(_MARK + json.dumps(_compared(found)), flush=True)
    distributed.destroy_process_group()


def _compared(found: Sequence[Record]) -> Record:
    ranks = [one["decided"] for one in found]
    return {
        "ranks": len(ranks),
        "calls": len({call for decided in ranks for call in decided}),
        "kernels": sum(not what.startswith("torch") for what in ranks[0].values()),
        "disagreements": disagreements(ranks),
        "same_weights": len({tuple(one["weights"]) for one in found}) == 1,
    }


def launch(ranks: int, arguments: Sequence[str]) -> Record:
    """Start the ranks and wait for what they found."""
    command = [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *(f"--nproc-per-node={ranks}", __file__, "--work", *arguments),
    ]
    own = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    with torch_hook.no_banks():
        done = subprocess.run(
            command, env=os.environ | own, capture_output=True, text=True, check=False
        )
    for line in done.stdout.splitlines():
        if line.startswith(_MARK):
            record: Record = json.loads(line.removeprefix(_MARK))
            return record
    raise SystemExit(f"the ranks ended with exit code {done.returncode}\n{done.stderr[-4000:]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 1 if ranks disagree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--models", default=",".join(SMALL))
    parser.add_argument("--seconds", type=float, default=0.5, help="of tuning, for each problem")
    parser.add_argument("--force", action="store_true", help="kernels also where they are slower")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.work:
        work(args.models.split(","), args.seconds, force=args.force)
        return 0
    force = ["--force"] if args.force else []
    rest = ["--models", args.models, "--seconds", str(args.seconds), *force]
    record = launch(args.ranks, rest)
    for call, decided in record["disagreements"].items():
        print(f"{call}: {', '.join(sorted(set(decided)))}")
    print(
        f"{record['ranks']} ranks, {record['calls']} kinds of calls, {record['kernels']} with a "
        f"kernel of ours: {len(record['disagreements'])} disagreements, weights "
        f"{'the same' if record['same_weights'] else 'differ'}"
    )
    return 1 if record["disagreements"] or not record["same_weights"] else 0


if __name__ == "__main__":
    sys.exit(main())
