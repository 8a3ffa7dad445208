"""Output on a terminal of 80 columns: nothing is cut, broken within words, or lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from skipjack import search
from skipjack.bank import FIND, Bank, BankEntry
from skipjack.cli.main import app
from skipjack.native import cpu
from skipjack.report import bank as bank_report
from skipjack.report import print_findings
from skipjack.report.doctor import HealthCheck
from skipjack.report.escaping import uncoloured

HERE = cpu.detect().name
PROBLEM = "matmul:24x24x24:f32"
COLUMNS = 80

Shown = Callable[..., list[str]]


@pytest.fixture
def terminal(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shown:
    """Runs a command in this process, with 80 columns; gives the lines that it printed."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words: str) -> list[str]:
        capsys.readouterr()
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        app(list(words), standalone_mode=False)
        return [_plain(line) for line in capsys.readouterr().out.splitlines()]

    return run


def _plain(line: str) -> str:
    return uncoloured(line).rstrip()


def fields(lines: list[str], head: str) -> dict[str, str]:
    """Names and values of the upright list below a heading."""
    found: dict[str, str] = {}
    for line in lines[lines.index(head) + 1 :]:
        if not line.startswith("  "):
            break
        assert len(line) <= COLUMNS
        name, gap, value = line.strip().partition("  ")
        if gap:
            found[name] = value.strip()
        else:  # a long value goes on
            found[next(reversed(found))] += f" {name}"
    return found


def test_a_find_is_an_upright_list_and_the_bank_too(terminal: Shown) -> None:
    lines = terminal("find", PROBLEM, "--budget", "3")
    (entry,) = [one for one in _bank().entries() if one.kind == FIND]
    ranked = [row for row in entry.evidence.ranking if row["status"] == "ok"]
    heads = [line for line in lines if line.startswith("rank ")]
    assert len(heads) == len(ranked)
    first = fields(lines, "rank 1")
    assert first["solver"] == ranked[0]["solver"]
    settings = [f"{name}={value}" for name, value in ranked[0]["config"].items()]
    assert first["config"] == " ".join(settings or ["-"])
    listed = terminal("bank", "list")
    shown = fields(listed, PROBLEM)
    assert shown["device"] == HERE
    assert shown["time"].split()[1] in ("ns", "µs")
    assert shown["config"]
    assert fields(terminal("bank", "show", PROBLEM), "rank 1")["solver"] == first["solver"]
    history = terminal("ledger", "show", PROBLEM)
    (title,) = [line for line in history if line.startswith("study")][:1]
    assert title.endswith("failed"), "it is one line"


def test_a_list_of_jobs_keeps_their_numbers(terminal: Shown, tmp_path: Path) -> None:
    problem = "conv2d:n16c128h28w28k128y3x3p1q1u1v1l1j1g1:f32:NCHW:fwd"
    list_of_problems = tmp_path / "problems.txt"
    list_of_problems.write_text(f"{problem}\n")
    terminal("import", "-f", str(list_of_problems), "-t", "wide")
    terminal("load", "-t", "wide", "-l", "november", "--budget", "2")
    lines = terminal("status", "-l", "november", "--jobs")
    shown = fields(lines, "job 1")
    assert shown["problem"].startswith("conv2d:n16c128h28w28k128y3x3")
    assert (shown["state"], shown["trials"], shown["best"]) == ("new", "0/2", "-")


def test_builds_and_machines_are_upright_lists(terminal: Shown) -> None:
    lines = terminal("tune", PROBLEM, "--build-only", "--budget", "2", "--solver", "packed")
    built = fields(lines, "number 0")
    assert built["status"] == "ok"
    assert built["config"].startswith("tile=")
    remarks = "in the cold aisle, third rack from the left, next to the door"
    terminal("machine", "add", "node1", "--host", "node1.example", "--remarks", remarks)
    machine = fields(terminal("machine", "list"), "node1")
    assert (machine["host"], machine["remarks"]) == ("node1.example", remarks)


@pytest.mark.parametrize("most", [0, 500])
def test_a_long_bank_is_an_upright_list_as_well(
    most: int, terminal: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bank_report, "_MOST_FOLDED", most)
    key, config = f"cpu:{HERE}:abc", {"tile": "6x4", "note": "x" * 90}
    kept = BankEntry(PROBLEM, key, HERE, "packed", 1, config, 1.0, 2.0, None, "", {}, {})
    _bank().add([kept])
    shown = fields(terminal("bank", "list"), PROBLEM)
    assert shown["solver"] == "packed"
    assert "x" * 90 in shown["config"].replace(" ", "")


def _bank() -> Bank:
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    return Bank.open(user_directory(load_settings()))


def test_findings_of_the_doctor_go_on_below_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    advice = "not installed; " + " ".join(["a second library to compare with"] * 5)
    print_findings(
        [HealthCheck("cpu", "good", "znver4/1"), HealthCheck("kernel cache", "note", advice)]
    )
    first, *rest = [_plain(line) for line in capsys.readouterr().out.splitlines()]
    assert first == "good           cpu  znver4/1"
    assert [line[:20] for line in rest] == ["note  kernel cache  ", *[" " * 20] * (len(rest) - 1)]
    assert max(map(len, rest)) <= COLUMNS
    assert " ".join(line[20:] for line in rest) == advice


def test_the_help_lists_every_command_by_task_in_a_whole_sentence(
    terminal: Shown, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = terminal("--help")
    tasks = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert len(tasks) == 8, "the options, and seven tasks"
    assert max(map(len, lines)) <= COLUMNS
    for command in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        name, told = command
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.endswith("."), f"the sentence about {name} ends in its line"
        assert line.split(None, 1)[1] == (told.help or "").splitlines()[0]


def test_the_help_names_the_searchers(terminal: Shown) -> None:
    for command in ("tune", "find"):
        text = " ".join(" ".join(terminal(command, "--help")).split())
        assert all(name in text for name in search.names())


def test_the_help_loads_nothing_heavy() -> None:
    heavy = ("numpy", "llvmlite", "sqlalchemy", "rich.table", "torch", "pydantic", "matplotlib")
    code = f"""
import sys
sys.argv = ["skipjack", "--help"]
from skipjack.cli import run
try:
    run()
finally:
    print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
