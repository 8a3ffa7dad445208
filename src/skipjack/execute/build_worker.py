"""The side of a build that runs in a worker: lower, look whether it is known, compile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from skipjack import plugins
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.errors import SkipjackError, StorageError
from skipjack.execute import wire
from skipjack.ledger import BuildRecord, Ledger
from skipjack.operations import parse
from skipjack.solvers import find_solver
from skipjack.solvers.identity import source_key
from skipjack.solvers.solver import BuildingSolver
from skipjack.storage import ARTIFACTS, ArtifactStore

MOST_SPILL_BYTES = 256
"""Of one thread. A config that spills more is not run: a quarter of all the registers that a thread
can have goes to memory and back, and there is always one with smaller blocks that does not."""


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
    known = _Known(Path(ledger_directory), kernels) if ledger_directory else None
    _load_compiler(gpu)
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        body, blobs = _build(message.body, known)
        wire.send(answers, body, blobs)


def _load_compiler(gpu: bool) -> None:
    """The import is slow; do it before the first request arrives."""
    if gpu:
        from skipjack.solvers.gpu import compiling

        compiling.warm_up()
    else:
        from skipjack.native import llvm

        llvm.binding()


class _Known:
    """Builds of earlier sittings whose machine code is still there, whole."""

    def __init__(self, directory: Path, kernels: Sequence[Path]) -> None:
        self._ledger = Ledger.open(directory)
        self._artifacts = ArtifactStore(*(kernels or [directory / ARTIFACTS]))

    def find(self, source_digest: str, compat: str) -> tuple[BuildRecord, bytes] | None:
        """What came of a source, if it came to something."""
        record = self._ledger.find_source(source_digest, compat)
        if record is None or not record.artifact_digest:
            return None
        try:
            return record, self._artifacts.get(record.artifact_digest)
        except StorageError:
            return None  # a ledger that was merged brings no machine code along


def _build(request: dict[str, Any], known: _Known | None) -> tuple[dict[str, Any], list[bytes]]:
    started = time.monotonic()
    answer: dict[str, Any] = {"status": "ok"}
    blobs: list[bytes] = []
    try:
        solver = find_solver(request["solver"])
        started = time.monotonic()  # its modules were loaded, once: that is no part of a build
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
        else:
            blob = solver.compile(source)
            answer |= {"symbol": blob.symbol, "abi": blob.abi, "resources": dict(blob.resources)}
            answer |= {"cached": False}
            blobs = [blob.data]
        if reason := too_much_spilled(answer["resources"]):
            answer |= {"status": "infeasible", "reason": reason}
            blobs = []
    except MemoryError:
        answer |= {"status": "build_error", "reason": "out of memory"}
    except SkipjackError as error:
        answer |= {"status": "build_error", "reason": str(error)[:500]}
    except Exception as error:  # a compiler may fail in any way; the search goes on
        answer |= {"status": "build_error", "reason": f"{type(error).__name__}: {error}"[:500]}
    answer |= {"started": started, "seconds": time.monotonic() - started}
    return answer, blobs


def too_much_spilled(needs: Mapping[str, float]) -> str:
    """Why a kernel with these needs is not worth running; empty if it may be."""
    spilled = int(needs.get("spill_bytes", 0))
    if spilled <= MOST_SPILL_BYTES:
        return ""
    return f"spills {spilled} bytes a thread; what spills more than {MOST_SPILL_BYTES} is not run"
