"""The environment of libraries in a run session: threads, and how they use memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipjack.core import TimingProtocol
from skipjack.execute import RunSession
from skipjack.native import cpu


@pytest.mark.parametrize("count", [1, 2])
def test_libraries_get_as_many_threads_as_there_are_cores(count: int) -> None:
    cores = cpu.usable_cores()[:count]
    with RunSession(TimingProtocol(threads=len(cores)), cores) as session:
        raw = Path(f"/proc/{session.pid}/environ").read_text(encoding="utf-8")
    told = dict(line.split("=", 1) for line in raw.split("\0") if line)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        assert told[name] == str(len(cores))
    assert int(told["GOMP_SPINCOUNT"]) < 100_000  # the default spins for milliseconds
    assert told["MALLOC_MMAP_MAX_"] == "0"  # freed memory is used again
