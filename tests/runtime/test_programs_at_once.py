"""Many processes that ask for the same unknown problems: each is searched once, and all agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.bank import Bank
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.operations import parse

HERE = Path(__file__).parent
PROBLEMS = [f"{operation}:{size}" for operation in ("add", "mul") for size in range(64, 89)]
SOME = PROBLEMS[::4]


def run_programs(count: int, tuner: str, seconds: float, problems: list[str]) -> list[object]:
    """What each of these programs got, all at once."""
    paths = os.pathsep.join([str(HERE), str(HERE.parent)])
    command = [sys.executable, str(HERE / "asking_program.py"), tuner, str(seconds), *problems]
    environment = {name: value for name, value in os.environ.items() if name != "SKIPJACK_ON_MISS"}
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, "PYTHONPATH": paths},
        )
        for _ in range(count)
    ]
    said = [one.communicate(timeout=PATIENCE_S) for one in started]
    assert [one.returncode for one in started] == [0] * count, said
    return [json.loads(text) for text, _ in said]


def test_four_processes_search_thirteen_problems_once_each_and_agree(user_dir: Path) -> None:
    got = run_programs(4, "noisy_tuner", PATIENCE_S, SOME)
    assert all(one == got[0] for one in got)
    searched = Counter((user_dir / "searched").read_text().split())
    assert searched == {parse(problem).key: 1 for problem in SOME}


@pytest.mark.long
def test_sixteen_processes_search_fifty_problems_once_each_and_agree(user_dir: Path) -> None:
    got = run_programs(16, "skipjack.tuning.online.server", 10.0, PROBLEMS)
    assert all(one == got[0] for one in got)
    bank = Bank.open(user_dir)
    with Ledger.open(user_dir) as ledger:
        for problem in PROBLEMS:
            key = parse(problem).key
            assert len(ledger.decisions(key)) == 1, problem
            assert bank.lookup(key, cpu.detect().class_key) is not None
