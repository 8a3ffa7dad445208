"""Winners of a label ship with what was known of them when they were tuned."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from skipjack.fleet.labels.results import winners
from skipjack.fleet.model import JobKind
from skipjack.fleet.store import FetchedArtifacts, JobVerdict
from skipjack.solvers import find_solver

DATA = b"machine code"
DIGEST = hashlib.sha256(DATA).hexdigest()


class Shelf:
    """One finished job."""

    def __init__(self, packed: bool = False, **verdict: Any) -> None:
        self._packed = packed
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

    def verdicts(self, label: str, device: str | None = None) -> Iterator[JobVerdict]:
        problem = str(self._verdict["problem"])
        yield JobVerdict(1, problem, "sm_90/132", "auto", self._verdict, "tools", "today")
        if self._packed:
            plain = {**self._verdict, "vendor": "", "vendor_ns": None, "as_called": None}
            yield JobVerdict(
                2, problem, "sm_90/132", "auto", plain, "tools", "today", "", JobKind.KERNELS
            )

    def artifacts(self, digests: Iterable[str]) -> FetchedArtifacts:
        return FetchedArtifacts(dict.fromkeys(digests, DATA), {})


@pytest.mark.parametrize("version", [99, None])
def test_a_kernel_keeps_the_version_of_the_solver_that_tuned_it(version: int | None) -> None:
    told = {} if version is None else {"solver_version": version}
    ((record, data),) = winners(Shelf(**told), "L")
    assert record.solver_version == (version or find_solver("triton_matmul").version)
    assert data == DATA


@pytest.mark.parametrize("packed", [False, True])
def test_a_kernel_keeps_its_gain_as_called(packed: bool) -> None:
    gain = {"ratio": 0.5, "low": 0.4, "high": 0.6}
    told = {"vendor": "numpy", "vendor_ns": 30.0, "as_called": {**gain, "confidence": 0.95}}
    ((record, _),) = winners(Shelf(packed, **told), "L")
    assert (record.vendor, record.vendor_ns, record.as_called) == ("numpy", 30.0, gain)
    assert not record.recommended
