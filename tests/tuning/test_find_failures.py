"""Solvers that crash or are wrong are ranked, too: last, with a reason."""

from pathlib import Path

import pytest

from skipjack.bank import FIND
from skipjack.core import Budget, Config, Parameter, ParameterSpace
from skipjack.errors import ForeignError, UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers import find_solver, solvers_for
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions


@pytest.fixture(scope="module")
def rogue_tuner(rogue_everywhere: Path, tuner: Tuner) -> Tuner:
    """One whose workers know the rogue solver."""
    return tuner


def options(trials: int) -> TuneOptions:
    return TuneOptions(budget=Budget(trials=trials))


def test_a_solver_of_which_nothing_works_is_listed_with_its_status(
    rogue_tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ParameterSpace([Parameter("behaviour", ("segfault", "refuse"))])
    monkeypatch.setattr(type(find_solver("rogue")), "space", lambda *_: space)
    result = rogue_tuner.find("rogue:62", options(12))
    assert {solver.solver for solver in result.ranked} == {"nest", "numpy"}
    failed = result["rogue"]
    assert failed.status in ("crash", "build_error")
    assert failed.reason
    assert (failed.time_ns, failed.trials) == (None, 2)
    context = rogue_tuner.context
    entry = context.bank.lookup("rogue:62:f32", context.device.class_key, FIND)
    assert entry is not None
    assert [row["solver"] for row in entry.evidence["ranking"]][-1] == "rogue"
    again = rogue_tuner.find("rogue:62", options(2))
    assert (again["rogue"].status, again["rogue"].trials) == (failed.status, 0)


def test_one_that_fails_on_unaligned_arrays_has_failed(
    rogue_tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ParameterSpace([Parameter("behaviour", ("aligned",))])
    monkeypatch.setattr(type(find_solver("rogue")), "space", lambda *_: space)
    result = rogue_tuner.find("rogue:63", options(3))
    assert result["rogue"].status == "crash"
    assert "unaligned" in result["rogue"].reason


class _Poor(ParameterSpace):
    """A space that cannot say where to start."""

    def promising(self, count: int) -> list[Config]:
        return [Config(behaviour="right")] * (count // 0)


@pytest.mark.parametrize("fault", ["space", "empty", "promising"])
def test_a_solver_that_raises_does_not_stop_the_others(
    rogue_tuner: Tuner, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def space(*_: object) -> ParameterSpace:
        if fault == "space":
            raise ValueError("no space left")
        if fault == "empty":
            return ParameterSpace([Parameter("behaviour", ())])
        return _Poor([Parameter("behaviour", ("segfault", "refuse"))])

    monkeypatch.setattr(type(find_solver("rogue")), "space", space)
    problem = f"rogue:{64 + len(fault)}"
    result = rogue_tuner.find(problem, options(3))
    assert {solver.solver for solver in result.ranked} == {"nest", "numpy"}
    assert result["rogue"].status == "error"
    assert "has no values" in result["rogue"].reason or "raised" in result["rogue"].reason
    with pytest.raises(ForeignError):
        rogue_tuner.tune(problem, TuneOptions(budget=Budget(trials=1), solver="rogue"))


def test_a_solver_that_raises_when_asked_whether_it_can_is_one_that_cannot(
    rogue_tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> str:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(type(find_solver("rogue")), "refuses", refuses)
    result = rogue_tuner.find("rogue:75", options(2))
    assert {solver.solver for solver in result.ranked} == {"nest", "numpy"}
    assert result["rogue"].status == "not_applicable"
    assert "raised ZeroDivisionError" in result["rogue"].reason
    with pytest.raises(UsageError, match=r"cannot do rogue:75:f32: refuses of solver .* raised"):
        rogue_tuner.tune("rogue:75", TuneOptions(budget=Budget(trials=1), solver="rogue"))
    tuned = rogue_tuner.tune("rogue:75", options(2))
    assert tuned.solver != "rogue"


def test_a_solver_that_raises_when_asked_what_it_promises_promises_nothing(
    rogue_tuner: Tuner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def promise(*_: object) -> float:
        raise KeyError("L2")

    space = ParameterSpace([Parameter("behaviour", ("right",))])
    monkeypatch.setattr(type(find_solver("rogue")), "space", lambda *_: space)
    monkeypatch.setattr(type(find_solver("rogue")), "promise", promise, raising=False)
    assert find_solver("rogue") not in solvers_for(parse("rogue:76"), cpu.detect())
    result = rogue_tuner.find("rogue:76", options(3))
    assert "rogue" in {solver.solver for solver in result.ranked}
