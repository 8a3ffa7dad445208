"""How long a call may take if faster kernels are known."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.core import Status, TimingProtocol
from skipjack.execute import Loadable, RunSession
from skipjack.operations import parse

Make = Callable[[str], Loadable]


def test_a_checked_call_is_timed(session: RunSession, loadable: Make) -> None:
    right = session.add(loadable("right"))
    assert session.checked_ns(right) == 0.0
    started = time.perf_counter_ns()
    session.verify(right)
    assert 0.0 < session.checked_ns(right) < time.perf_counter_ns() - started


def test_who_hurries_waits_less_for_work_that_is_large(
    rogue_everywhere: Path, monkeypatch: pytest.MonkeyPatch, loadable: Make
) -> None:
    monkeypatch.setattr("skipjack.execute.session._SLOW_FLOPS", 1e-3)  # 60 additions are large
    with RunSession(TimingProtocol(call_timeout_s=0.2), ()) as session:
        session.prepare(parse("rogue:60"))
        session.limit_call_time(0.3)
        started = time.monotonic()
        failure, _ = session.verify(session.add(loadable("spin")))
        assert failure is not None
        assert failure.status is Status.TIMEOUT
        assert "0.3 s" in failure.reason
        assert time.monotonic() - started < 60.0, "without hurry it may take 1200 s"
