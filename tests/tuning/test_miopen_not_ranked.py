"""A solver that drives a program takes part in no tuning and no ranking."""

import pytest

from skipjack.errors import UsageError
from skipjack.gpu import describe_gpu
from skipjack.operations import parse
from skipjack.solvers import solvers_for, vendors_for
from skipjack.tuning.study import applicable_solvers

PROBLEM = parse("conv2d:n2c8h9w9k8y3x3", "f16")
GPU = describe_gpu("gfx908/120")


def test_nobody_asks_miopen_unless_it_is_named() -> None:
    applicable = applicable_solvers(PROBLEM, GPU)
    assert "miopen" not in {solver.name for solver in (*applicable.building, *applicable.vendors)}
    assert "miopen" not in applicable.refused
    assert "miopen" not in {solver.name for solver in vendors_for(PROBLEM, GPU)}


def test_who_names_it_hears_what_to_do_instead() -> None:
    applicable = applicable_solvers(PROBLEM, GPU, ["miopen"])
    assert not applicable.building and not applicable.vendors
    assert "skipjack load --solver miopen" in applicable.refused["miopen"]
    with pytest.raises(UsageError, match="skipjack load --solver miopen"):
        solvers_for(PROBLEM, GPU, "miopen")
