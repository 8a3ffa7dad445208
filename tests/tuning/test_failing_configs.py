"""A search among configs that crash, hang or are wrong finds the right one, and records all."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import alive, workers_of
from skipjack.core import Budget, Problem, Status
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions, TuneOutcome, TuneResult

FATES = {
    "right": Status.OK,
    "slow": Status.OK,
    "aligned": Status.OK,  # until it is checked on arrays that are not, in the final
    "wrong": Status.WRONG,
    "input": Status.WRONG,
    "before": Status.WRONG,
    "behind": Status.WRONG,
    "far": Status.CRASH,
    "segfault": Status.CRASH,
    "trap": Status.CRASH,
    "segfault_later": Status.CRASH,
    "spin": Status.TIMEOUT,
    "spin_later": Status.TIMEOUT,
    "bad_ir": Status.BUILD_ERROR,
    "refuse": Status.BUILD_ERROR,
    "exit": Status.BUILD_CRASH,
    "kill": Status.BUILD_CRASH,
    "hang": Status.BUILD_TIMEOUT,
}
pytestmark = pytest.mark.usefixtures("rogue_everywhere")  # before a tuner starts its workers
EVERYTHING = TuneOptions(budget=Budget(trials=len(FATES)), searcher="exhaustive", solver="rogue")


@pytest.fixture(scope="module")
def result(rogue_everywhere: Path, tuner: Tuner) -> TuneResult:
    return tuner.tune("rogue:60", EVERYTHING)


def test_every_config_becomes_a_trial_with_its_status(result: TuneResult) -> None:
    assert {t.config["behaviour"]: t.status for t in result.trials} == FATES


def test_every_failure_has_a_reason_and_no_value(result: TuneResult) -> None:
    for trial in result.trials:
        assert bool(trial.reason) == trial.status.failed
        assert trial.ok != trial.status.failed


def test_the_right_one_wins(result: TuneResult, tuner: Tuner) -> None:
    """It is a plain loop, which loops of vectors are faster than."""
    assert result.status is TuneOutcome.RESERVED
    assert result.solver == "rogue"
    assert result.best["behaviour"] == "right"
    entry = tuner.context.bank.lookup("rogue:60:f32", tuner.context.device.class_key)
    assert entry is not None
    assert entry.solver == "nest"


def test_the_ledger_remembers_the_failures(result: TuneResult, tuner: Tuner) -> None:
    ledger = tuner.context.ledger
    (study,) = ledger.studies("rogue:60:f32")
    known = {t.config["behaviour"]: (t.status, t.reason) for t in ledger.trials(study.id)}
    assert {name: status for name, (status, _) in known.items()} == FATES
    assert "this compiler says no" in known["refuse"][1]


def test_a_space_in_which_nothing_works_fails_with_a_reason(
    tuner: Tuner, rogue: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skipjack.core import Parameter, ParameterSpace
    from skipjack.solvers import find_solver

    space = ParameterSpace([Parameter("behaviour", ("refuse", "segfault", "wrong"))])
    monkeypatch.setattr(type(find_solver("rogue")), "space", lambda *_: space)
    result = tuner.tune("rogue:61", TuneOptions(budget=Budget(trials=3), solver="rogue"))
    assert result.status is TuneOutcome.FAILED
    assert result.reason
    assert len(result.trials) == 3
    with pytest.raises(Exception, match="no tuned kernel"):
        result.kernel()


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_that_are_killed_or_stopped_meanwhile_do_not_stop_a_search(
    tuner: Tuner, stop: signal.Signals
) -> None:
    victims = workers_of(os.getpid())
    assert len(victims) == 2
    timer = threading.Timer(0.3, lambda: [os.kill(pid, stop) for pid in victims])
    timer.start()
    # A space too large to be searched in this time, so that there is always something to build.
    result = tuner.tune(f"matmul:{stop + 40}x64x64", TuneOptions(budget=Budget(seconds=1.5)))
    timer.join()
    assert result.status is not TuneOutcome.FAILED
    assert result.time_ns > 0
    # The search may have ended with nothing left to build: the next one has all workers again.
    tuner.tune(f"matmul:{stop + 41}x64x64", TuneOptions(budget=Budget(trials=2)))
    after = workers_of(os.getpid())
    assert len(after) == 2
    assert not after & victims


def test_nothing_is_left(
    rogue_everywhere: Path, user_dir: Path, scratch: Path, children: Callable[[], set[int]]
) -> None:
    with Tuner() as tuner:
        tuner.tune("rogue:60", TuneOptions(budget=Budget(trials=4), solver="rogue"))
        started = children()
        assert len(started) == 2
    assert not any(alive(pid) for pid in started)
    assert {path.suffix for path in scratch.iterdir()} == {".lock"}
    assert not subprocess.run(
        ["find", str(user_dir), "-name", "*.tmp*"], capture_output=True, check=True
    ).stdout
