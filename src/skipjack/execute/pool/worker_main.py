"""The program of a worker, and the build worker.

``python -m skipjack.execute.pool.worker_main build|run PARENT [--cores N,M]``

A build worker lowers a candidate, looks whether its build is known, and compiles it. With
``--gpu cuda:0`` a run worker runs its kernels there, and a build worker builds for such a GPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from skipjack import plugins
from skipjack.core import Config, Device, Status
from skipjack.errors import SkipjackError, StorageError
from skipjack.execute import wire
from skipjack.execute.startup import core_list, set_up_worker
from skipjack.ledger import BuildRecord, Ledger
from skipjack.operations import parse
from skipjack.settings import ARTIFACTS, RETRY_FAILED_BUILDS
from skipjack.solvers import BuildingSolver, find_solver, source_key
from skipjack.storage import ArtifactStore, is_shortage

# The build worker: lowers a candidate, looks whether its build is known, and compiles it.

MOST_SPILL_BYTES = 256
"""A config whose threads spill more is not run: a quarter of all the registers that a thread can
have goes to memory and back, and there is always a config with smaller blocks that spills less."""


def serve(
    requests: BinaryIO,
    answers: BinaryIO,
    ledger_directory: str | None,
    kernels: Sequence[Path] = (),
    *,
    gpu: bool = False,
) -> None:
    """Answer build requests until the pipe closes."""
    plugins.load_from_environment()
    known = _KnownBuilds(Path(ledger_directory), kernels) if ledger_directory else None
    _load_compiler(gpu)
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        body, blobs = _build(message.body, known)
        wire.send(answers, body, blobs)


def _load_compiler(gpu: bool) -> None:
    """Import the compiler, which is slow, before the first request arrives."""
    if gpu:
        from skipjack.solvers.gpu.triton import compilation

        compilation.warm_up()
    else:
        from skipjack.native import llvm

        llvm.binding()


class _KnownBuilds:
    """Builds of earlier sessions whose machine code is still in the store."""

    def __init__(self, directory: Path, kernels: Sequence[Path]) -> None:
        self._ledger = Ledger.open(directory)
        self._artifacts = ArtifactStore(*(kernels or [directory / ARTIFACTS]))

    def find(self, source_digest: str, compat: str) -> tuple[BuildRecord, bytes] | None:
        """The record and machine code of a source that was built, and whose code is here."""
        record = self._ledger.find_source(source_digest, compat)
        if record is None or not record.artifact_digest:
            return None
        try:
            return record, self._artifacts.get(record.artifact_digest)
        except StorageError:
            return None  # a ledger that was merged has records without machine code

    def find_failure(self, digest: str, compat: str, solver: BuildingSolver) -> BuildRecord | None:
        """The record of a source that is known not to build, on any machine."""
        if _retries():
            return None
        return self._ledger.find_failed_source(digest, compat, solver.name, solver.version)


def _retries() -> bool:
    return RETRY_FAILED_BUILDS.text() == "on"


def _build(
    request: dict[str, Any], known: _KnownBuilds | None
) -> tuple[dict[str, Any], list[bytes]]:
    started = time.monotonic()
    answer: dict[str, Any] = {"status": "ok"}
    blobs: list[bytes] = []
    try:
        solver = find_solver(request["solver"])
        started = time.monotonic()  # loading the solver's modules is not part of a build
        device = Device.from_record(request["device"])
        if not isinstance(solver, BuildingSolver):
            raise TypeError(f"solver {solver.name} builds nothing")
        problem = parse(request["problem"])
        config = Config(request["config"])
        source = solver.lower(problem, device, config)
        digest = source_key(solver, source)
        answer |= {
            "source_digest": digest,
            "compiler": source.compiler,
            "target": source.target,
            "slots": list(solver.slots(problem, device, config)),
        }
        found = known.find(digest, device.compat_key) if known else None
        if found:
            record, data = found
            answer |= {"symbol": record.symbol, "abi": record.abi, "cached": True}
            answer |= {"resources": dict(record.resources)}
            blobs = [data]
        elif known and (failure := known.find_failure(digest, device.compat_key, solver)):
            return answer | _known_failure(failure, started), []
        else:
            blob = solver.compile(source)
            answer |= {"symbol": blob.symbol, "abi": blob.abi, "resources": dict(blob.resources)}
            answer |= {"cached": False}
            blobs = [blob.data]
        if reason := too_much_spilled(answer["resources"]):
            answer |= {"status": "infeasible", "reason": reason}
            blobs = []
    except Exception as error:  # a compiler may fail in any way; the search goes on
        answer |= _failure(error)
    answer |= {"started": started, "seconds": time.monotonic() - started}
    return answer, blobs


def _failure(error: Exception) -> dict[str, str]:
    """The status and reason of an error, which is the source's or the machine's."""
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        return {"status": str(Status.OUT_OF_MEMORY), "reason": "the compiler ran out of memory"}
    ours = isinstance(error, SkipjackError)
    reason = str(error) if ours else f"{type(error).__name__}: {error}"
    status = Status.ERROR if is_shortage(error) else Status.BUILD_ERROR
    return {"status": str(status), "reason": reason[:500]}


def _known_failure(record: BuildRecord, started: float) -> dict[str, Any]:
    """The answer for a source that failed before, with the record of that build."""
    return {
        "status": str(record.status),
        "reason": record.reason,
        "resources": dict(record.resources),
        "cached": True,
        "known": {**asdict(record), "status": str(record.status)},
        "started": started,
        "seconds": time.monotonic() - started,
    }


def too_much_spilled(needs: Mapping[str, float]) -> str:
    """Why a kernel with these resources is not worth running; empty if it may be."""
    spilled = int(needs.get("spill_bytes", 0))
    if spilled <= MOST_SPILL_BYTES:
        return ""
    return f"spills {spilled} bytes per thread; a config may spill at most {MOST_SPILL_BYTES}"


# The entry point of build workers and run workers.


def main(arguments: list[str] | None = None) -> None:
    """Set up the process, then serve until the parent closes the pipe."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["build", "run"])
    parser.add_argument("parent", type=int)
    parser.add_argument("--cores", type=core_list, default=[])
    parser.add_argument("--announce", type=int, help="descriptor of the shared page")
    parser.add_argument("--ledger")
    parser.add_argument("--kernels", action="append", type=Path, default=[])
    parser.add_argument("--gpu", help="as cuda:0; run kernels there, or build for it")
    options = parser.parse_args(arguments)
    requests, answers = set_up_worker(options.parent)
    if options.cores:
        os.sched_setaffinity(0, options.cores)
    if options.role == "build":
        pass

        known = options.ledger, options.kernels
        serve(requests, answers, *known, gpu=options.gpu is not None)
    elif options.gpu:
        from skipjack.execute.gpu import serve as serve_gpu

        serve_gpu(requests, answers, options.announce, options.gpu)
    else:
        from skipjack.execute.cpu import serve as serve_runs

        serve_runs(requests, answers, options.announce)


if __name__ == "__main__":
    main()
