"""The program that this process belongs to: its ranks, and warnings that it is given once."""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from skipjack.settings import PROGRAM

# Which program a process is a rank of, as its launcher's environment variables say.
#
# Processes of one program (torchrun, MPI, Slurm, Ray) get the same kernel for the same problem.
#
# For each problem, the first rank that asks decides; the others adopt its decision. It holds until
# `skipjack.reload()`, which all ranks call at the same point of the program. They need a shared
# user directory.

_RANKS = (
    ("RANK", "WORLD_SIZE"),  # torchrun, Ray Train, Accelerate, DeepSpeed
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
"""Variables of launchers: the rank, and the number of ranks."""
_STEPS = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",))
"""Variables with a launcher's name of a program, the same on all hosts."""
_PARTS = (
    *("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    "RAY_JOB_ID",
)
"""Variables that distinguish programs with the same parent or step."""

_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RankedProgram:
    """A program of several processes."""

    name: str
    """The same in all ranks."""
    rank: int
    ranks: int


def ranked_program(environment: Mapping[str, str] | None = None) -> RankedProgram | None:
    """The program that this process is a rank of; None if it is the only process."""
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
    from skipjack.processes import began  # only ranks need it

    parent = os.getppid()
    return " ".join([os.uname().nodename, str(parent), began(parent) or "", *parts])


_generation = 0


def generation() -> int:
    """How often this process has reloaded."""
    return _generation


def next_generation() -> None:
    """Forget all agreements; ranks that have called this equally often agree again."""
    global _generation
    _generation += 1


# Warnings that a program gets only once, however often their cause occurs.

_MOST_SAID = 1000
_said: set[Hashable] = set()


def warn_once(log: logging.Logger, sentence: str, about: Hashable = None) -> None:
    """Warn, unless there was a warning about the same subject: by default, the same sentence."""
    subject = sentence if about is None else about
    if subject not in _said and len(_said) < _MOST_SAID:
        _said.add(subject)
        log.warning("%s", sentence)
