"""The ledger's report of a problem."""

from pathlib import Path

import pytest

from skipjack.core import Config, Status, Study, Trial
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.report import print_problem

PROBLEM = "matmul:8x8x8:f32"


def test_the_title_of_a_study_is_one_line_though_its_table_is_narrow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = Study(parse(PROBLEM), "nest", "cpu:znver4/1:abc", "hill_climbing", seed=7)
    with Ledger.open(tmp_path) as ledger:
        ledger.start_study(study, 1)
        ledger.log_tells(study.id, [Trial(Config(n=1), Status.CRASH, reason="it broke")])
        print_problem(ledger, PROBLEM, 5)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{PROBLEM}: 0 blocks of samples"
    title = f"study {study.id}: nest by hill_climbing, seed 7, 1 trial, 1 failed"
    assert title in [line.rstrip() for line in lines]
