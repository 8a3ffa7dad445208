"""Tensors shared out among ranks: each computes plain tensors, and those reach the hook."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
distributed = pytest.importorskip("torch.distributed")
if not distributed.is_available() or not distributed.is_gloo_available():
    pytest.skip("PyTorch without gloo", allow_module_level=True)

from hooked_calls import ForcedHook, program_environment  # noqa: E402


@pytest.fixture
def one_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A group of this process alone."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    store = distributed.FileStore(str(tmp_path / "ranks"), 1)
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def test_products_of_distributed_tensors(forced: ForcedHook, one_rank: Any) -> None:
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    a, b = torch.randn(12, 20), torch.randn(20, 8)
    wanted = forced.plainly(lambda: a @ b)
    left, right = distribute_tensor(a, one_rank, [Shard(0)]), distribute_tensor(b, one_rank)
    found, ours, _ = forced.counted(lambda: left @ right)
    assert isinstance(found, DTensor) and ours["aten::mm"] == 1
    torch.testing.assert_close(found.full_tensor(), wanted, rtol=1e-4, atol=1e-4)


def test_a_fully_sharded_network(forced: ForcedHook, one_rank: Any) -> None:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    plain = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    sharded = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.GELU(), torch.nn.Linear(16, 8))
    sharded.load_state_dict(plain.state_dict())
    for layer in (sharded[0], sharded[2], sharded):
        fully_shard(layer, mesh=one_rank)
    x = torch.randn(12, 20)
    forced.plainly(lambda: plain(x).square().sum().backward())
    _, ours, theirs = forced.counted(lambda: sharded(x).square().sum().backward())
    assert ours["aten::addmm"] == 2 and ours["aten::mm"] == 3 and not theirs
    for mine, other in zip(sharded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.full_tensor(), other.grad, rtol=1e-4, atol=1e-4)


PROGRAM = """
import json, os, sys
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

distributed.init_process_group("gloo")
rank = distributed.get_rank()


def trained(network, batch):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(3):
        optimizer.zero_grad()
        network(torch.randn(batch, 1, 12, 12, generator=generator)).square().mean().backward()
        optimizer.step()


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(800, 24))


plain = DistributedDataParallel(network())
trained(plain, 4)
sharded = network()
fully_shard(sharded, mesh=distributed.device_mesh.init_device_mesh("cpu", (2,)))
trained(sharded, 6)

from skipjack.integrations.torch import is_enabled, report  # checks the result below

calls = {f"{one.decision.op} {one.decision.description}": one.decision for one in report().calls}
decided = {name: one.kernel if one.is_ours else "torch" for name, one in calls.items()}
weights = [one.double().norm().item() for one in plain.parameters()]
whole = [one.full_tensor().double().norm().item() for one in sharded.parameters()]
print(json.dumps([is_enabled(), decided, weights, whole]), flush=True)
distributed.destroy_process_group()
"""


@pytest.mark.long
def test_ranks_of_an_unchanged_program_take_the_same_kernels(tmp_path: Path) -> None:
    """Under torchrun, each tunes what it meets first, and all of them use what was found."""
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    command = [
        *(sys.executable, "-m", "skipjack.cli.main", "exec", "--policy", "incremental"),
        *("--seconds", "1", "--", sys.executable, "-m", "torch.distributed.run"),
        *("--standalone", "--nproc-per-node=2", str(script)),
    ]
    own = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command,
        env=program_environment(tmp_path / "user") | own,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("[")]
    ranks = [json.loads(line) for line in lines]
    assert len(ranks) == 2, f"{done.stdout}\n{done.stderr}"
    assert ranks[0] == ranks[1]
    is_enabled, decided, _, _ = ranks[0]
    assert is_enabled and any(kernel != "torch" for kernel in decided.values()), decided
    assert any((tmp_path / "user").iterdir())
