"""Which program a process is a rank of, by what its launcher has put into the environment.

Processes of one program (torchrun, MPI, Slurm, Ray) get the same kernel for the same problem.

For each problem one of them decides, whoever asks first; the others take what it decided. That
holds until `skipjack.reload()`, which all of them call at the same point of the program. They need
a user directory that they share.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from skipjack.settings import PROGRAM

_RANKS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Ray Train, Accelerate, DeepSpeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables of launchers: which rank, of how many."""
_STEPS = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",))
"""What a launcher calls a program on all of its hosts."""
_PARTS = (
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    "RAY_JOB_ID",
)
"""What tells programs apart that have a parent or a step in common."""

_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RankedProgram:
    """A program of several processes."""

    name: str
    """The same in all of them."""
    rank: int
    ranks: int


def ranked_program(environment: Mapping[str, str] | None = None) -> RankedProgram | None:
    """The program that this process is a rank of; None if it is alone."""
    given = os.environ if environment is None else environment
    for rank, ranks in _RANKS:
        if given.get(rank, "").isdigit() and given.get(ranks, "").isdigit():
            if int(given[ranks]) < 2:
                return None
            return RankedProgram(_name(given), int(given[rank]), int(given[ranks]))
    return None


def _name(given: Mapping[str, str]) -> str:
    if named := PROGRAM.text(given):
        return named
    parts = [f"{part}={given[part]}" for part in _PARTS if given.get(part)]
    for step in _STEPS:
        if all(given.get(part) for part in step):
            return " ".join([*(f"{part}={given[part]}" for part in step), *parts])
    if given.get("MASTER_PORT") and given.get("MASTER_ADDR", "localhost") not in _LOCAL:
        return " ".join(parts)  # where all ranks meet, whatever their hosts
    # Ranks of a host have a common parent: the launcher's process there.
    from skipjack.processes import began  # who is no rank need not load it

    parent = os.getppid()
    return " ".join([os.uname().nodename, str(parent), began(parent) or "", *parts])


_epoch = 0


def epoch() -> int:
    """How often this process has reloaded."""
    return _epoch


def next_epoch() -> None:
    """Nothing is agreed on any more; ranks that have called it equally often agree anew."""
    global _epoch
    _epoch += 1
