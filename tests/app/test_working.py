"""The commands as functions: the events that they report, and the records they return."""

from pathlib import Path

import pytest

from skipjack import app
from skipjack.app import BatchBegun, Notice, ProblemBegun, WorkEvent
from skipjack.core import Budget
from skipjack.errors import UsageError
from skipjack.interop import NotApplicable
from skipjack.settings import Settings
from skipjack.tuning import BuildOptions, BuildResult, FindResult
from skipjack.tuning.study import TuneOptions, TuneResult

OPTIONS = TuneOptions(budget=Budget(trials=1), solver="nest")
SMALL, OTHER = "add:64:f32", "mul:64:f32"
POOLING = "MIOpenDriver pool -n 1 -F 1"
"""A command that no solver can do."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("SKIPJACK_LOCK_DIR", str(tmp_path / "locks"))
    return Settings(tmp_path / "user")


def of_kind(events: list[WorkEvent], *kinds: type) -> list[WorkEvent]:
    return [event for event in events if isinstance(event, kinds)]


def test_a_tuning_tells_its_batch_and_each_result_and_returns_all(settings: Settings) -> None:
    events: list[WorkEvent] = []
    request = app.TuneRequest(app.ProblemList((SMALL, POOLING, OTHER)), options=OPTIONS)
    run = app.tune(request, events.append, settings=settings)
    assert [result.problem.key.split(":")[0] for result in run.results] == ["add", "mul"]
    assert of_kind(events, TuneResult) == list(run.results)
    (batch,) = of_kind(events, BatchBegun)
    assert isinstance(batch, BatchBegun) and batch.problems == 2
    assert [entry.text.split(":")[0] for entry in run.not_applicable] == ["pool2d"]
    assert of_kind(events, NotApplicable) == list(run.not_applicable)
    assert not run.interrupted and not run.incomplete


def test_a_find_tells_each_problem_before_its_ranking(settings: Settings) -> None:
    events: list[WorkEvent] = []
    options = TuneOptions(budget=Budget(trials=1))
    request = app.FindRequest(app.ProblemList((SMALL,)), ("numpy",), options=options)
    run = app.find(request, events.append, settings=settings)
    begun, result = of_kind(events, ProblemBegun, FindResult)
    assert isinstance(begun, ProblemBegun) and (begun.number, begun.of) == (1, 1)
    assert (result,) == run.results
    assert [one.solver for one in run.results[0].ranked] == ["numpy"]
    assert not (run.failed or run.none_applicable or run.interrupted)


def test_a_build_for_another_device_runs_nothing(settings: Settings) -> None:
    events: list[WorkEvent] = []
    options = BuildOptions(solver="nest", configs=1)
    request = app.BuildRequest(app.ProblemList((SMALL,)), "haswell/1", options=options)
    run = app.build(request, events.append, settings=settings)
    assert of_kind(events, BuildResult) == list(run.results)
    assert run.results[0].built and not run.incomplete


def test_verifying_what_no_bank_holds_is_told_and_returns_nothing(settings: Settings) -> None:
    events: list[WorkEvent] = []
    run = app.verify(app.VerifyRequest(), events.append, settings=settings)
    (notice,) = of_kind(events, Notice)
    assert isinstance(notice, Notice) and "the bank has no stale entry" in notice.sentence
    assert run.results == ()


def test_what_cannot_work_is_refused_before_anything_is_begun(settings: Settings) -> None:
    events: list[WorkEvent] = []
    trace = settings.user_dir / "nowhere" / "trace.json"
    request = app.TuneRequest(app.ProblemList((SMALL,)), options=OPTIONS, trace=trace)
    with pytest.raises(UsageError, match="there is no directory"):
        app.tune(request, events.append, settings=settings)
    assert not of_kind(events, BatchBegun)
