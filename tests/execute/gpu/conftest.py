"""Kernels of the fake GPU, and a session that runs them."""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from skipjack import plugins
from skipjack.core import Problem, gpu_protocol
from skipjack.execute import Loadable, RunSession
from skipjack.gpu import ABI, launch, pack, to_slots
from skipjack.operations import parse
from skipjack.testing.fake_gpu import fake_artifact

QUICK = replace(gpu_protocol(), sample_ns=20_000, samples_per_block=2, call_timeout_s=1.5)
FAKE = "skipjack.testing.fake_gpu"

Make = Callable[..., Loadable]


@pytest.fixture(scope="session")
def fake_everywhere() -> Iterator[None]:
    """The fake driver, here and in every worker that is started from now on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, "")
        plugins.load((FAKE,))
        patch.setenv(plugins.VARIABLE, FAKE)
        yield


@pytest.fixture
def problem() -> Problem:
    return parse("add:1000")


@pytest.fixture
def loadable(problem: Problem) -> Make:
    """An artifact that behaves so, and its plan."""

    def make(behaviour: str = "right", time_ns: float = 5000.0, **abi: Any) -> Loadable:
        data = pack(fake_artifact(behaviour, time_ns, **abi))
        slots = to_slots([launch("add", (8,), ["x", "y", "out", problem.shape[0]])])
        return Loadable(data, hashlib.sha256(data).hexdigest(), "gpu", ABI, tuple(slots))

    return make


@pytest.fixture(scope="module")
def shared_session(fake_everywhere: None) -> Iterator[RunSession]:
    with RunSession(QUICK, (), gpu="fake:0") as opened:
        yield opened


@pytest.fixture
def session(shared_session: RunSession, problem: Problem) -> RunSession:
    shared_session.prepare(problem)
    shared_session.restarts = 0
    return shared_session
