"""Every line of the page for Tuna's users does something, here or against stand-ins.

What runs jobs and writes databases is run by the page's own cycle (`test_docs`); what starts
clusters by the tests of machines, against real sshd.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from command_lines import Line, lines_of
from sqlalchemy import create_engine, text
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.fleet.engine import Host
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.store.opening import open_store
from stand_ins import stand_in

ROOT = Path(__file__).resolve().parents[2]
TUNA = ROOT / "docs" / "coming-from-tuna.md"
STAND_INS = ROOT / "tests" / "fleet" / "images"
IN_THE_CYCLE = {
    *("run", "export find-db", "export perf-db", "export kernel-db"),
    *("check-db", "compare", "promote"),
}
WITH_SSHD = {"fleet up", "machine check"}
FIRST = ("import", "machine add", "image build", "load")
"""What others need comes before them; otherwise the page's order holds."""
PASSWORD = "correct horse\n"
"""The one that the stand-in for docker takes."""
DRIVER_LINE = "./bin/MIOpenDriver conv -n 1 -c {} -H 8 -W 8 -k 8\n"
FIND_DB_LINE = (
    "{}-8-8-1x1-8-8-8-1-0x0-1x1-1x1-0-NCHW-FP32-F="
    "ConvAsm1x1U:0.5,0,miopenConvolutionFwdAlgoDirect\n"
)
LABELS = ("myLabel", "mylabel", "my_label_perf_db")


def run(*words: str) -> str:
    """The sentence that a command fails with, or nothing."""
    typed = PASSWORD if words[0] == "image" else DRIVER_LINE.format(8)
    done = CliRunner().invoke(app, words, input=typed)
    if done.exception is None or done.exit_code == 0:
        return ""
    return str(done.exception) or done.output


@pytest.fixture
def fleet(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store with problems and labels, an engine and an ssh that are none."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_in(programs, "docker", (STAND_INS / "stand_in_engine.py").read_text())
    stand_in(programs, "ssh", (STAND_INS / "stand_in_ssh.py").read_text())
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("SKIPJACK_CONTAINER_ENGINE", "docker")
    monkeypatch.setenv("STAND_IN_DIR", str(programs))
    monkeypatch.chdir(tmp_path)
    commands = [DRIVER_LINE.format(channels) for channels in range(8, 14)]
    Path("all.txt").write_text("".join([*commands, "relu:64\n"]))
    for number, name in enumerate(("a.fdb.txt", "b.fdb.txt", "gfx908_60.HIP.fdb.txt"), start=8):
        Path(name).write_text(FIND_DB_LINE.format(number))
    with open_store() as store:
        store.add_registration(Registration("gpu56", "other", device="gfx900/56", gpus=1))
        store.register(Host("gpu7", 8, 2**34), "local")
    assert not run("import", "-f", "all.txt", "-t", "myTag", "--recurrent")
    for label in LABELS:
        assert not run("load", "-t", "myTag", "-l", label)


def turn(line: Line) -> int:
    return FIRST.index(line.command) if line.command in FIRST else len(FIRST)


def test_every_line_outside_of_the_cycle_works(fleet: None) -> None:
    cycle = "## The whole cycle on this machine\n"
    tables, _, rest = TUNA.read_text().partition(cycle)
    lines = [line for line in lines_of(tables) if line.rest and line.rest != ("--help",)]
    assert {line.command for line in lines_of(rest)} >= IN_THE_CYCLE
    mine = [line for line in lines if line.command not in IN_THE_CYCLE | WITH_SSHD]
    assert len(mine) > 30
    failures = {}
    for line in sorted(mine, key=turn):
        if sentence := run(*line.command.split(), *line.rest):
            failures[line.text] = sentence
    assert not failures


def test_the_queries_run_on_the_views(tmp_path: Path) -> None:
    queries = re.findall(r"^```sql\n(.*?)^```$", TUNA.read_text(), re.MULTILINE | re.DOTALL)
    assert queries
    url = f"sqlite:///{tmp_path}/fleet.sqlite"
    open_store(url).close()
    with create_engine(url).connect() as connection:
        for query in queries:
            assert connection.execute(text(query)).all() == []


def test_every_state_of_tuna_has_a_counterpart() -> None:
    tunas = (
        "new started running completed timeout error_status no_update errored bad_param error "
        "transfer_error eval_start evaluating evaluated evaluate_error compile_start compiling "
        "compiled compile_error not_applicable aborted not_tunable compiled_pend evaluated_pend"
    )
    section = TUNA.read_text().partition("## States\n")[2].partition("\n## ")[0]
    left = [row.split("|")[1] for row in section.splitlines() if row.startswith("| ")][1:]
    assert sorted(", ".join(cell.strip() for cell in left).split(", ")) == sorted(tunas.split())
