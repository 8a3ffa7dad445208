"""Schedules timed now: in order, once each, kept for other processes, failures without a time."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.core import Config, Status
from skipjack.errors import UsageError, WorkerError
from skipjack.learn.rates import LiveRates
from skipjack.learn.rates.live import FILE_NAME
from skipjack.native import cpu, describe
from skipjack.operations import parse
from skipjack.settings import load_settings
from skipjack.solvers.cpu.nest import Schedule
from skipjack.testing.fake_tuning import FakeContext
from skipjack.testing.sessions import FakeKernel
from skipjack.tuning import ConfigTimer

PROBLEM = parse("matmul:16x16x16")
SLOW, FAST, BAD = (Schedule.parse(text) for text in ("m k n", "m n k", "n m k"))


class Contexts:
    """Timers of machines that are made up; `speed` is how fast the next one is."""

    def __init__(self) -> None:
        self.speed = 1.0
        self.made: list[FakeContext] = []

    def timer(self) -> ConfigTimer:
        speed = self.speed

        def cost(solver: str, config: Config) -> float | FakeKernel:
            if config["schedule"] == BAD.text():
                return FakeKernel(1.0, run=Status.CRASH)
            return (1000.0 if config["schedule"] == FAST.text() else 4000.0) / speed

        self.made.append(FakeContext(cost))
        return ConfigTimer(context=self.made[-1])


@pytest.fixture
def contexts() -> Contexts:
    return Contexts()


def rates_in(directory: Path, make_timer: Callable[[], ConfigTimer], **given: bool) -> LiveRates:
    settings = load_settings(user_dir=directory)
    return LiveRates(settings=settings, make_timer=make_timer, **given)


def test_times_come_in_order_and_a_crash_has_none(tmp_path: Path, contexts: Contexts) -> None:
    with rates_in(tmp_path, contexts.timer) as rates:
        slow, bad, fast, again = rates.seconds(PROBLEM, [SLOW, BAD, FAST, SLOW])
        assert bad is None
        assert slow == again == pytest.approx(4e-6, rel=0.05)
        assert fast == pytest.approx(1e-6, rel=0.05)
        assert (rates.measured, rates.timed, rates.sources) == (3, 3, {"measured": 3})
        assert rates.seconds(PROBLEM, [SLOW, BAD]) == [slow, None]
        assert (rates.measured, rates.timed) == (3, 3)


def test_another_process_times_nothing_again(tmp_path: Path, contexts: Contexts) -> None:
    with rates_in(tmp_path, contexts.timer) as rates:
        first = rates.seconds(PROBLEM, [SLOW, BAD, FAST])
    with rates_in(tmp_path, contexts.timer) as rates:
        assert rates.seconds(PROBLEM, [SLOW, BAD, FAST]) == first
        assert (rates.measured, rates.timed) == (3, 0)
    assert len(contexts.made) == 1


def test_new_times_are_scaled_to_those_that_were_kept(tmp_path: Path, contexts: Contexts) -> None:
    with rates_in(tmp_path, contexts.timer) as rates:
        (fast,) = rates.seconds(PROBLEM, [FAST])
    contexts.speed = 0.8
    with rates_in(tmp_path, contexts.timer) as rates:
        again, slow = rates.seconds(PROBLEM, [FAST, SLOW])
    assert again == fast
    assert slow == pytest.approx(4e-6, rel=0.05)


def test_without_keeping_nothing_is_written(tmp_path: Path, contexts: Contexts) -> None:
    with rates_in(tmp_path, contexts.timer, keep=False) as rates:
        assert rates.seconds(PROBLEM, [FAST]) == [pytest.approx(1e-6, rel=0.05)]
    assert not list(tmp_path.iterdir())


def test_a_damaged_file_is_done_without(tmp_path: Path, contexts: Contexts) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 100)
    with rates_in(tmp_path, contexts.timer) as rates:
        assert rates.seconds(PROBLEM, [FAST, FAST]) == [pytest.approx(1e-6, rel=0.05)] * 2


def test_a_problem_without_a_time_says_why_once(
    tmp_path: Path, contexts: Contexts, caplog: pytest.LogCaptureFixture
) -> None:
    with rates_in(tmp_path, contexts.timer) as rates:
        assert rates.seconds(PROBLEM, [BAD]) == [None]
        assert "no time of matmul:16x16x16:f32 under 'n m k': " in caplog.text
        caplog.clear()
        rates.seconds(PROBLEM, [SLOW])
        assert not caplog.text


def test_workers_that_do_not_start_are_no_exception(tmp_path: Path, contexts: Contexts) -> None:
    attempts = []

    def broken() -> ConfigTimer:
        attempts.append(1)
        raise WorkerError("run workers fail again and again")

    with rates_in(tmp_path, broken) as rates:
        assert rates.seconds(PROBLEM, [FAST]) == [None]
        assert rates.seconds(PROBLEM, [FAST]) == [None]
    assert len(attempts) == 2
    with rates_in(tmp_path, contexts.timer) as rates:
        assert rates.seconds(PROBLEM, [FAST]) == [pytest.approx(1e-6, rel=0.1)], "tried again"


def test_schedules_of_another_cpu_are_not_timed_here() -> None:
    other = "haswell" if cpu.detect().arch != "haswell" else "skylake"
    with pytest.raises(UsageError, match="replay a table"):
        LiveRates(describe(f"{other}/1"))


def test_a_forked_process_leaves_its_parents_workers_alone(
    tmp_path: Path, contexts: Contexts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rates_in(tmp_path, contexts.timer) as rates:
        (slow,) = rates.seconds(PROBLEM, [SLOW])
        ours = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: ours + 1)
        assert rates.seconds(PROBLEM, [SLOW]) == [slow]
        assert len(contexts.made) == 1, "what is known needs no workers"
        rates.seconds(PROBLEM, [FAST])
        assert len(contexts.made) == 2
        monkeypatch.undo()


def test_rates_travel_to_other_processes(tmp_path: Path) -> None:
    with LiveRates(settings=load_settings(user_dir=tmp_path)) as rates:
        found = rates.seconds(PROBLEM, [SLOW])
        with pickle.loads(pickle.dumps(rates)) as others:
            assert others.seconds(PROBLEM, [SLOW]) == found
            assert others.seconds(PROBLEM, [FAST])[0] is not None


def test_real_schedules_are_timed(tmp_path: Path) -> None:
    with LiveRates(settings=load_settings(user_dir=tmp_path)) as rates:
        first, second = rates.seconds(PROBLEM, [SLOW, FAST])
        assert first is not None
        assert second is not None
        assert min(first, second) > 1e-9
