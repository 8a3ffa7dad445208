"""A program that times by itself is in no race and no ranking of ours."""

import pytest

from skipjack.errors import UsageError
from skipjack.gpu.describing import describe_gpu
from skipjack.operations import parse
from skipjack.solvers import solvers_for, vendors_for
from skipjack.tuning.lineup import line_up

PROBLEM = parse("conv2d:n2c8h9w9k8y3x3", "f16")
GPU = describe_gpu("gfx908/120")


def test_nobody_asks_miopen_unless_it_is_named() -> None:
    lineup = line_up(PROBLEM, GPU)
    assert "miopen" not in {solver.name for solver in (*lineup.building, *lineup.vendors)}
    assert "miopen" not in lineup.refused
    assert "miopen" not in {solver.name for solver in vendors_for(PROBLEM, GPU)}


def test_who_names_it_hears_what_to_do_instead() -> None:
    lineup = line_up(PROBLEM, GPU, ["miopen"])
    assert not lineup.building and not lineup.vendors
    assert "skipjack load --solver miopen" in lineup.refused["miopen"]
    with pytest.raises(UsageError, match="skipjack load --solver miopen"):
        solvers_for(PROBLEM, GPU, "miopen")
