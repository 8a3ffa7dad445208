"""Where workers begin: ``python -m skipjack.execute.worker build|run PARENT [--cores N,M]``.

With ``--gpu cuda:0`` a run worker runs its kernels there, and a build worker builds for such.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO

ELSEWHERE = 0
"""The parent of a worker in a container: its number means nothing there."""
_PR_SET_PDEATHSIG = 1


def main(arguments: list[str] | None = None) -> None:
    """Set the process up, then serve until the parent closes the pipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["build", "run"])
    parser.add_argument("parent", type=int)
    parser.add_argument("--cores", type=core_list, default=[])
    parser.add_argument("--announce", type=int, help="descriptor of the page")
    parser.add_argument("--ledger")
    parser.add_argument("--kernels", action="append", type=Path, default=[])
    parser.add_argument("--gpu", help="as cuda:0; run kernels there, or build for it")
    options = parser.parse_args(arguments)
    requests, answers = settle_in(options.parent)
    if options.cores:
        os.sched_setaffinity(0, options.cores)
    if options.role == "build":
        from skipjack.execute.build_worker import serve as serve_builds

        known = options.ledger, options.kernels
        serve_builds(requests, answers, *known, gpu=options.gpu is not None)
    elif options.gpu:
        from skipjack.execute.gpu.worker import serve as serve_gpu

        serve_gpu(requests, answers, options.announce, options.gpu)
    else:
        from skipjack.execute.run_worker import serve as serve_runs

        serve_runs(requests, answers, options.announce)


def settle_in(parent: int) -> tuple[BinaryIO, BinaryIO]:
    """What every worker does first: die with its parent, have limits; gives the two pipes."""
    if parent != ELSEWHERE:
        die_with(parent)
    _limit()
    requests, answers = _take_pipes()
    if parent == ELSEWHERE:
        _die_with_pipe(requests.fileno())
    return requests, answers


def core_list(text: str) -> list[int]:
    """``2,3`` as numbers."""
    return [int(part) for part in text.split(",")]


def die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however that comes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _die_with_pipe(descriptor: int) -> None:
    """End this process when nobody can ask it anything any more, whatever it is at."""

    def watch() -> None:
        poll = select.poll()
        poll.register(descriptor, 0)  # the end of the pipe is told unasked, and what comes is left
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _limit() -> None:
    """No core files, and no more memory than the machine has."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Keep the pipes for ourselves: what a library prints must not end up between frames."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return requests, answers


if __name__ == "__main__":
    main()
