"""Escape sequences in untrusted names are shown by every command, and never obeyed."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import update

from processes import command
from skipjack.bank import Bank, BankEntry
from skipjack.cli import main
from skipjack.core import Device
from skipjack.execute import device_locks
from skipjack.fleet.model import ClaimResult, Failed, Host, JobPlan, JobStage, Label, WorkRequest
from skipjack.fleet.store import NewProblem, open_store
from skipjack.fleet.store.schema import tables
from skipjack.native import cpu
from skipjack.processes import ProcessIdentity
from skipjack.report.escaping import escaped, uncoloured
from skipjack.storage import FileLock

EVIL = "evil\x1b]0;gone\x9b2J"
SHOWN = "evil\\x1b]0;gone\\x9b2J"
OBEYED = set("\x1b\x9b\r")

Command = Callable[..., str]


@pytest.fixture
def said(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Runs a command as the installed one does, and gives what it wrote to both streams."""

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["skipjack", *words])
        with pytest.raises(SystemExit):
            main.run()
        return "".join(capsys.readouterr())

    # Commands send the log to a standard error that ends with them.
    handlers, level = list(logging.root.handlers), logging.root.level
    yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def check(text: str) -> str:
    assert not set(text) & OBEYED, text
    assert SHOWN in text, text
    return text


def test_control_characters_are_spelled_out_and_all_else_is_left_alone() -> None:
    assert escaped(EVIL) == SHOWN
    for text in ("a µs\tb\n", "1\u202f000", "ü 🐟"):
        assert escaped(text) == text
    assert escaped("a\rb\u202e\udcff") == "a\\x0db\\u202e\\udcff"
    assert uncoloured("\x1b[1;31mred\x1b[0m") == "red"


def test_names_and_reasons_of_the_store(said: Command) -> None:
    with open_store() as store:
        store.problems.add([NewProblem("matmul:8x8x8:f32", "matmul", "", "f32")], "tag")
        store.jobs.add(Label("label", "me"), [JobPlan("matmul:8x8x8:f32", "znver4/1")])
        with store.database.engine.begin() as connection:  # as somebody with another program may
            connection.execute(update(tables.labels).values(name=EVIL))
            connection.execute(update(tables.problem_tags).values(tag=EVIL))
        machine = store.queue.register(Host(EVIL, 1, 1, (Device("cpu", "znver4", 1),)), "local")
        owner = store.queue.start_lease(ProcessIdentity("head", 1), 60.0)
        ((claim, _),) = store.queue.claim(owner, JobStage.BUILD, [WorkRequest(machine.id, "b")])
        coloured = f"\x1b[31m{EVIL}\x1b[0m"
        store.queue.finish(owner, [ClaimResult(claim, Failed(EVIL), log=coloured)])
        store.jobs.abort(machine=EVIL)
    check(said("status"))
    check(said("status", "-l", EVIL, "--jobs"))
    check(said("store", "machines"))
    check(said("store", "tags"))
    check(said("job", "show", "1"))
    assert "[31m" not in check(said("job", "log", "1"))
    assert json.loads(said("store", "machines", "--json"))["name"] == EVIL


def test_entries_of_a_bank(said: Command, user_dir: Path) -> None:
    here = cpu.detect()
    problem, times = "matmul:8x8x8:f32", (1.0, 2.0, None)
    entry = BankEntry(problem, here.class_key, here.name, EVIL, 1, {"a": EVIL}, *times, "", {})
    Bank.open(user_dir).put(entry)
    check(said("bank", "list"))
    check(said("bank", "show", problem))


def test_names_of_files_and_of_what_was_asked_for(said: Command, tmp_path: Path) -> None:
    (tmp_path / f"{EVIL}.db").write_bytes(b"no database")
    check(said("check-db", str(tmp_path)))
    check(said("bank", "show", EVIL))
    check(said(f"--{EVIL}"))


def test_colours_are_shown_in_a_pipe_too(said: Command, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31mred.db").write_bytes(b"no database")
    assert r"a\x1b[31mred.db" in said("check-db", str(tmp_path))


def test_lines_of_the_log(said: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn() -> list[str]:
        logging.getLogger("skipjack").warning("found %s", EVIL)
        return []

    monkeypatch.setattr("skipjack.fleet.store.Problems.tags", lambda problems: warn())
    assert "WARNING: found" in check(said("store", "tags"))


def test_who_holds_a_lock(user_dir: Path) -> None:
    with FileLock(device_locks._path("cpu")):
        holder = {"pid": 1, "command": EVIL, "shared": False}
        device_locks._path("cpu").write_text(json.dumps(holder))
        words = command(["tune", "add:64", "--budget", "1"])
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stderr
            line = next(line for line in waiting.stderr if "waiting for" in line)
            waiting.kill()
    check(line)
