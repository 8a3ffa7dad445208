"""How a worker starts.

The parent makes its command line and environment, in a container if there is one; the worker sets
limits and takes its pipes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import BinaryIO, Protocol

from skipjack.processes import python_command

# What every worker does before it serves requests: set limits, take the pipes.

IN_CONTAINER = 0
"""In place of the parent's process id for a worker in a container, where the id has no meaning."""
_PR_SET_PDEATHSIG = 1


def set_up_worker(parent: int) -> tuple[BinaryIO, BinaryIO]:
    """What every worker does first: die with its parent, set limits; returns the two pipes."""
    if parent != IN_CONTAINER:
        die_with(parent)
    _limit()
    requests, answers = _take_pipes()
    if parent == IN_CONTAINER:
        _die_with_pipe(requests.fileno())
    return requests, answers


def core_list(text: str) -> list[int]:
    """The numbers of ``2,3``."""
    return [int(part) for part in text.split(",")]


def die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however it ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _die_with_pipe(descriptor: int) -> None:
    """End this process when its parent closes the pipe, whatever it is doing."""

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # a hang-up is always reported, and input is left unread
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _limit() -> None:
    """Write no core files, and use no more memory than the machine has."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Move the pipes to new descriptors: the output of libraries must not mix with frames."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


# The command line and environment of a worker, which may run in a container.

MODULE = "skipjack.execute.pool.worker_main"
_LIBRARIES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class ContainerRunner(Protocol):
    """A container that a worker runs in."""

    def command(self, module: str, arguments: Sequence[str], given: Collection[str]) -> list[str]:
        """The command that runs a module in the container and connects its pipes.

        `given` names environment variables of the command that the worker must get, too.
        """
        ...

    def words(self, lines: Sequence[str]) -> str:
        """The most informative line of the error output of the worker and the command."""
        ...

    def end(self) -> None:
        """End what is left in the container after the command has ended; does not wait."""
        ...


def command_of(
    module: str,
    role: str,
    arguments: Sequence[str],
    cores: Sequence[int],
    given: Collection[str],
    container: ContainerRunner | None,
) -> list[str]:
    """The command that runs a worker, in a container if there is one."""
    words = [role, str(IN_CONTAINER if container else os.getpid())]
    if cores:
        words += ["--cores", ",".join(map(str, cores))]
    words += arguments
    if container:
        return container.command(module, words, given)
    return python_command(module, *words)


def variables_for(role: str, cores: Sequence[int]) -> Mapping[str, str]:
    """Environment variables for libraries in a worker, which read them when they are loaded."""
    # Libraries get as many threads as the kernels that they are compared with.
    given = dict.fromkeys(_LIBRARIES, str(max(1, len(cores))))
    # Their threads must not keep spinning after a call: with two threads on two cores, that made
    # the kernels timed next to them twice as slow.
    given |= {
        "OPENBLAS_THREAD_TIMEOUT": "4",
        "KMP_BLOCKTIME": "0",
        "GOMP_SPINCOUNT": "20000",
    }
    # A library that allocates its result should reuse memory that it freed before. New pages from
    # the system at each call made some convolutions look three times as slow.
    if role == "run":
        given |= {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
    return given
