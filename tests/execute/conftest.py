"""Kernels of the rogue solver, and a session that runs them."""

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skipjack.core import ABI, Candidate, Config, Device, Problem, TimingProtocol
from skipjack.execute import Loadable, RunSession
from skipjack.native import cpu, llvm

QUICK = TimingProtocol(sample_ns=2_000, samples_per_block=2, call_timeout_s=0.6)


@pytest.fixture
def device() -> Device:
    return cpu.detect()


@pytest.fixture
def candidate(rogue: Problem) -> Callable[[str], Candidate]:
    return lambda behaviour: Candidate(rogue, "rogue", Config({"behaviour": behaviour}))


@pytest.fixture
def loadable(rogue: Problem, device: Device) -> Callable[[str], Loadable]:
    """Machine code of a behaviour."""

    def make(behaviour: str) -> Loadable:
        text = sys.modules["skipjack_plugin_rogue"].text_of(behaviour)
        data = llvm.compile_object(text, cpu.target_of(device))
        digest = hashlib.sha256(data).hexdigest()
        return Loadable(data, digest, abi=ABI, slots=("x", "y", "out", rogue.shape[0]))

    return make


@pytest.fixture(scope="module")
def shared_session(rogue_everywhere: Path) -> Iterator[RunSession]:
    """Starting a worker takes a while, and a session outlives what its kernels do."""
    with RunSession(QUICK, ()) as opened:
        yield opened


@pytest.fixture
def session(shared_session: RunSession, rogue: Problem) -> RunSession:
    shared_session.prepare(rogue)
    shared_session.restarts = 0
    return shared_session
