"""Every line of the page for Tuna's users does something, here or against stand-ins.

The tables' lines work on one store, one after the other, with programs that stand in for docker,
ssh and MIOpenDriver, and with workers that are played. The page's own cycle, where nothing is
played, is run by `test_docs`.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from command_lines import Line, lines_of
from played_fleet import PlayedFleet, driver_in
from sqlalchemy import create_engine, text, update
from typer.main import get_command
from typer.testing import CliRunner

from skipjack.app import RunOptions
from skipjack.cli.main import app
from skipjack.fleet.model import Host, JobPlan, Label, Registration
from skipjack.fleet.store import NewProblem, open_store
from skipjack.fleet.store.schema import tables
from stand_ins import stand_in

ROOT = Path(__file__).resolve().parents[2]
TUNA = ROOT / "docs" / "coming-from-tuna.md"
STAND_INS = ROOT / "tests" / "fleet" / "images"
NOT_HERE = {
    "skipjack fleet up": "starts Ray on machines: tests/fleet/machines does, over real sshd",
    "skipjack machine check": "needs a fit machine: tests/fleet/machines does, over real sshd",
    "skipjack machine check -l myLabel": "the same",
}
"""Lines, not commands, and why."""
FIRST = ("import", "machine add", "image build", "load", "run")
"""What others need comes before them; otherwise the page's order holds."""
PASSWORD = "correct horse\n"
"""The one that the stand-in for docker takes."""
DRIVER_LINE = "./bin/MIOpenDriver conv -n 1 -c {} -H 8 -W 8 -k 8 -y 1 -x 1 -F {}\n"
FIND_DB_LINE = (
    "{}-8-8-1x1-8-8-8-1-0x0-1x1-1x1-0-NCHW-FP32-F="
    "ConvAsm1x1U:0.5,0,miopenConvolutionFwdAlgoDirect\n"
)
FILES = (
    *("out/gfx900_64.HIP.fdb.txt", "out/gfx803_56.HIP.fdb.txt", "out/gfx900_56.db.txt"),
    *("out/gfx90878.HIP.fdb.txt", "out/gfx906_60.find.jsonl", "rel/gfx900_56.kdb"),
    *("miopen-kernel/rel-6.2/gfx900_56.kdb", "golden/gfx90878.HIP.fdb.txt", "c.fdb.txt"),
)
"""That the lines write."""
LABELS = ("myLabel", "mylabel", "my_label_perf_db")


@pytest.fixture(autouse=True)
def one_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all commands, made once: that takes longer than most of them do."""
    monkeypatch.setattr("typer.testing._get_command", cache(get_command))


def run(*words: str) -> str:
    """The sentence that a command fails with, or nothing."""
    typed = PASSWORD if words[0] == "image" else DRIVER_LINE.format(8, 1)
    done = CliRunner().invoke(app, words, input=typed)
    if done.exception is None or done.exit_code == 0:
        return ""
    return str(done.exception) or done.output


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What engines were made with; none of them has workers of its own."""

    class Engine(PlayedFleet):
        made: list[dict[str, object]] = []  # noqa: RUF012  (one list for all of this test's)

    monkeypatch.setattr("skipjack.fleet.engines.LocalEngine", Engine)
    monkeypatch.setattr("skipjack.fleet.engines.RayEngine", Engine)
    asked = RunOptions.request.fget
    assert asked
    quick = property(lambda options: replace(asked(options), linger_s=0.1))
    monkeypatch.setattr(RunOptions, "request", quick)  # a window waits for the other one
    monkeypatch.setenv("SKIPJACK_MIOPEN_DRIVER", driver_in(tmp_path))
    return Engine.made


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
    Path("all.txt").write_text("".join([*map(DRIVER_LINE.format, (8, 9), (1, 4)), "relu:64\n"]))
    for number, name in enumerate(("a.fdb.txt", "b.fdb.txt", "gfx908_60.HIP.fdb.txt"), start=8):
        Path(name).write_text(FIND_DB_LINE.format(number))
    shipped = Path("MIOpen", "src", "kernels")
    shipped.mkdir(parents=True)
    (shipped / "gfx90878.HIP.fdb.txt").write_text(FIND_DB_LINE.format(8))
    Path("golden").mkdir()
    with open_store() as store:
        store.registrations.add(Registration("gpu56", "other", device="gfx900/56", gpus=1))
        store.queue.register(Host("gpu7", 8, 2**34), "local")
    assert not run("import", "-f", "all.txt", "-t", "myTag", "--recurrent")
    for label in LABELS:
        assert not run("load", "-t", "myTag", "-l", label)


def turn(line: Line) -> int:
    return FIRST.index(line.command) if line.command in FIRST else len(FIRST)


@pytest.mark.long
def test_every_line_of_the_tables_works(fleet: None, engines: list[dict[str, object]]) -> None:
    page = TUNA.read_text().partition("## The whole cycle on this machine\n")[0]
    lines = [line for line in lines_of(page) if line.rest and line.rest != ("--help",)]
    assert {line.text for line in lines_of(page)} >= set(NOT_HERE)
    mine = [line for line in lines if line.text not in NOT_HERE]
    assert len(mine) > 60
    failures = {}
    for line in sorted(mine, key=turn):
        if sentence := run(*line.command.split(), *line.rest):
            failures[line.text] = sentence
    assert not failures, "\n".join(f"{a}: {b}" for a, b in failures.items())
    # Each window had the workers that it names, and those alone.
    asked = [{key: one.get(key) for key in ("address", "image")} for one in engines]
    assert {"address": None, "image": "my_img"} in asked
    assert {"address": "ray://10.0.0.7:10001", "image": ""} in asked
    counts = [(one["builders"] == 0, one["evaluators"] == 0) for one in engines]
    assert {(True, False), (False, True), (False, False)} <= set(counts)
    # And the releases are files with something in them.
    for name in FILES:
        assert Path(name).stat().st_size > 0, name


def test_lines_that_load_everything_leave_out_no_kind_of_convolution(
    user_dir: Path, tmp_path: Path
) -> None:
    convolutions = (
        *("conv2d:n1c8h8w8k8y1x1:wrw:f32", "conv3d:n1c8d8h8w8k8z1y1x1:wrw:f32"),
        "conv_transpose2d:n1c8h8w8k8y2x2:wrw:f32",
    )
    (tmp_path / "few.txt").write_text("\n".join([*convolutions, "relu:64"]))
    assert not run("import", "-f", str(tmp_path / "few.txt"), "-t", "few")
    lines = [line for line in lines_of(TUNA.read_text()) if "--all" in line.rest]
    assert len(lines) == 4
    for line in lines:
        assert ("--solver", "miopen") in pairwise(line.rest), line.text
        label = line.rest[line.rest.index("-l") + 1]
        assert not run("load", *line.rest)
        with open_store() as store:
            loaded = {job.plan.problem.partition(":")[0] for job in store.jobs.find(label=label)}
        assert {"conv2d", "conv3d", "conv_transpose2d"} <= loaded, line.text


def test_the_queries_tell_what_they_are_for(user_dir: Path) -> None:
    problems = [f"relu:{size}:f32" for size in (64, 128, 256)]
    with open_store() as store:
        store.problems.add([NewProblem(key, "relu") for key in problems], "t")
        gpu7 = store.queue.register(Host("gpu7", 8, 2**34), "local").id
        for label in ("myLabel", "others"):
            store.jobs.add(Label(label, "me"), [JobPlan(key, "gfx900/56") for key in problems])
    failed = {"stage": "evaluate", "reason": "it broke", "gpu": "3", "eval_machine": gpu7}
    engine = create_engine(f"sqlite:///{user_dir / 'fleet.sqlite'}")
    with engine.begin() as connection:
        worst = update(tables.jobs).where(tables.jobs.c.id == 1)
        connection.execute(worst.values(state="error", failures=3, build_machine=gpu7, **failed))
    queries = re.findall(r"^```sql\n(.*?)^```$", TUNA.read_text(), re.MULTILINE | re.DOTALL)
    with engine.connect() as connection:
        answers = [sorted(map(tuple, connection.execute(text(query)))) for query in queries]
    assert answers == [
        [("error", 1), ("new", 2)],
        [(1, "gfx900", 56, "error"), (2, "gfx900", 56, "new")],
        [(1, "gfx900", 56, "error", "gpu7", "gpu7", "3")],
        [(1, problems[0], "gpu7", 3, "it broke")],
    ]


def test_every_state_of_tuna_has_a_counterpart() -> None:
    tunas = (
        "new started running completed timeout error_status no_update errored bad_param error "
        "transfer_error eval_start evaluating evaluated evaluate_error compile_start compiling "
        "compiled compile_error not_applicable aborted not_tunable compiled_pend evaluated_pend"
    )
    section = TUNA.read_text().partition("## States\n")[2].partition("\n## ")[0]
    left = [row.split("|")[1] for row in section.splitlines() if row.startswith("| ")][1:]
    assert sorted(", ".join(cell.strip() for cell in left).split(", ")) == sorted(tunas.split())
