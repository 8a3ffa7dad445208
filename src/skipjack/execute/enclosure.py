"""Where a worker is: beside its parent, or enclosed in a container; and what it is given there."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from skipjack.children import python_command
from skipjack.execute.worker import ELSEWHERE

MODULE = "skipjack.execute.worker"
_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Enclosure(Protocol):
    """Where a worker is, if it is not beside its parent: in a container."""

    def command(self, module: str, arguments: Sequence[str], given: Collection[str]) -> list[str]:
        """A program that runs a module in there as a process of ours and passes its pipes on.

        `given` names variables that the worker must have with the values that the program has.
        """
        ...

    def words(self, lines: Sequence[str]) -> str:
        """Of lines of error output, the worker's and the program's, the one that tells most."""
        ...

    def end(self) -> None:
        """End what is left in there, now that the program is gone; does not wait for it."""
        ...


def command_of(
    module: str,
    role: str,
    arguments: Sequence[str],
    cores: Sequence[int],
    given: Collection[str],
    enclosure: Enclosure | None,
) -> list[str]:
    """The program that is a worker, or that runs one somewhere else."""
    words = [role, str(ELSEWHERE if enclosure else os.getpid())]
    if cores:
        words += ["--cores", ",".join(map(str, cores))]
    words += arguments
    if enclosure:
        return enclosure.command(module, words, given)
    return python_command(module, *words)


def variables_for(role: str, cores: Sequence[int]) -> Mapping[str, str]:
    """What libraries in a worker must know before they are loaded."""
    # They get as many threads as the kernels that they are compared with.
    given = dict.fromkeys(_LIBRARIES, str(max(1, len(cores))))
    # Their threads must not go on spinning after a call: with two threads on two cores, that
    # made the kernels timed next to them twice as slow.
    given |= {
        "OPENBLAS_THREAD_TIMEOUT": "4",
        "KMP_BLOCKTIME": "0",
        "GOMP_SPINCOUNT": "20000",
    }
    # A library that allocates its result gets memory that it freed before. Fresh pages from the
    # system at each call made some convolutions look three times as slow.
    if role == "run":
        given |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    return given
