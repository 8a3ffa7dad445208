"""Winners of a label ship with what was known of them when they were tuned."""

import hashlib
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from skipjack.fleet.shipping import winners
from skipjack.fleet.store.artifacts import Fetched
from skipjack.fleet.store.jobs import JobResult
from skipjack.solvers import find_solver

DATA = b"machine code"
DIGEST = hashlib.sha256(DATA).hexdigest()


class Shelf:
    """One finished job."""

    def __init__(self, **verdict: Any) -> None:
        self._verdict = {
            "problem": "matmul:8x8x8:f16",
            "solver": "triton_matmul",
            "config": {},
            "code": {"digest": DIGEST, "symbol": "gpu", "abi": "gpu-1", "slots": []},
            "time_ns": 10.0,
            "vendor": "",
            "vendor_ns": None,
            **verdict,
        }

    def results(self, label: str) -> Iterator[JobResult]:
        plan = SimpleNamespace(device="sm_90/132")
        job = SimpleNamespace(result=self._verdict, plan=plan)
        yield cast(JobResult, SimpleNamespace(job=job, facts=[]))

    def artifacts(self, digests: Iterable[str]) -> Fetched:
        return Fetched(dict.fromkeys(digests, DATA), {})


@pytest.mark.parametrize("version", [99, None])
def test_a_kernel_keeps_the_version_of_the_solver_that_tuned_it(version: int | None) -> None:
    told = {} if version is None else {"solver_version": version}
    ((record, data),) = winners(Shelf(**told), "L")
    assert record.solver_version == (version or find_solver("triton_matmul").version)
    assert data == DATA
