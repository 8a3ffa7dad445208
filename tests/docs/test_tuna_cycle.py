"""Tuna's whole cycle as one plan, from a list of problems to databases that are shipped."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import command
from skipjack.cli.command_book import command_book
from skipjack.cli.main import app
from skipjack.interop.miopen import find_results, read_text_db
from skipjack.native import cpu
from skipjack.plans import Mistakes, check_inputs, read_plan, validate

Skipjack = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "tuna_cycle"


def test_the_example_has_no_mistakes() -> None:
    mistakes = Mistakes(EXAMPLE / "cycle.yaml")
    steps = validate(read_plan(mistakes.path, mistakes), command_book(app), mistakes)
    check_inputs(steps, EXAMPLE, mistakes)
    assert not mistakes.lines


@pytest.mark.long
def test_the_cycle_ends_with_databases_of_both_problems(skipjack: Skipjack, tmp_path: Path) -> None:
    home = tmp_path / "cycle"
    shutil.copytree(EXAMPLE, home)
    done = subprocess.run(
        command(["plan", "run", str(home / "cycle.yaml")]),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = skipjack("plan", "show", str(home / "cycle.yaml"), "--json").stdout
    stands = [json.loads(line)["standing"] for line in shown.splitlines()]
    assert set(stands) == {"done", "disabled"}
    name = cpu.detect().name.replace("/", "_")
    records = read_text_db(home / "kernels" / f"{name}.HIP.fdb.txt")
    assert len(records) == 2
    assert all(find_results(record) for record in records)
    assert (home / "out" / f"{name}.kdb").stat().st_size > 0
