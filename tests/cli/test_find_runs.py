"""`skipjack run --find` and `--kernel-cache` from end to end, with real workers."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import SkipjackError, UsageError

Command = Callable[..., str]


@pytest.fixture
def fleet(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Runs a command with arguments and gives what it printed; errors are raised."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words))
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        assert done.exit_code == 0, done.output
        return done.stdout

    handlers, level = list(logging.root.handlers), logging.root.level
    yield run
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


def last(text: str) -> dict[str, Any]:
    found = json.loads(text.splitlines()[-1])
    assert found["format"] == 1
    return dict(found)


def test_from_a_list_over_rankings_to_packed_kernels(fleet: Command, tmp_path: Path) -> None:
    (tmp_path / "problems.txt").write_text("add:256\n")
    fleet("import", "-f", "problems.txt", "-t", "small")
    fleet("load", "-t", "small", "-l", "A", "--budget", "2")

    built = fleet("run", "-l", "A", "--find", "--build")
    assert built.startswith("find: 1 built after") and "1 find job made" in built
    fleet("bundle", "export", "-l", "A", "-o", "jobs.skb")
    fleet("bundle", "evaluate", "jobs.skb", "-o", "results.skb")
    assert "1" in fleet("bundle", "import", "results.skb")
    found = last(fleet("run", "-l", "A", "--find", "--json"))  # nothing is left to do
    assert (found["kind"], found["states"]) == ("find", {"evaluated": 1})
    assert found["jobs"]["made"] == 0
    shown = last(fleet("job", "show", "2", "--json"))
    assert shown["solver"] == "find" and len(shown["result"]["solvers"]) > 2
    assert "ranking" in fleet("job", "show", "2")

    fleet("load", "--from-label", "A", "-l", "A_fdb")
    taken = last(fleet("run", "-l", "A_fdb", "--find", "--find-mode", "3", "--json"))
    assert taken["jobs"]["taken_over"] == 1 and taken["settled"] == {}

    packed = last(fleet("run", "-l", "A_fdb", "--kernel-cache", "--json"))
    assert (packed["kind"], packed["states"]) == ("kernels", {"evaluated": 1})
    kernel = last(fleet("job", "show", "5", "--json"))["result"]
    assert kernel["code"]["digest"] and kernel["trials"] == 1
    states = fleet("status", "-l", "A_fdb", "--by", "solver,state")
    assert [line.split()[:2] for line in states.splitlines()[2:]] == [
        ["auto", "new"],
        ["find", "evaluated"],
        ["kernels", "evaluated"],
    ]
    said = fleet("export", "kernel-db", "-l", "A_fdb", "-o", "x.skk")
    assert "1 kernel in x.skk, " in said and "KiB" in said
    fleet("bank", "build", "-l", "A_fdb")
    kinds = [json.loads(line)["kind"] for line in fleet("bank", "list", "--json").splitlines()]
    assert kinds == ["find", "perf"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--find", "--find-mode", "2"), "skipjack.lookup"),
        (("--find", "--find-mode", "5"), "--find-mode 3"),
        (("--find", "--find-mode", "4"), "unknown find mode 4"),
        (("--find-mode", "1"), "add --find"),
        (("--find", "--kernel-cache"), "two runs"),
        (("--fresh",), "skipjack reset"),
        (("--find", "--find-mode", "3", "--fresh"), "give only one"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    fleet: Command, words: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        fleet("run", "-l", "L", *words)


def test_find_and_kernels_are_no_solvers(fleet: Command, tmp_path: Path) -> None:
    (tmp_path / "problems.txt").write_text("add:256\n")
    fleet("import", "-f", "problems.txt", "-t", "small")
    with pytest.raises(UsageError, match=r"find is not a solver.*run -l LABEL --find"):
        fleet("load", "-t", "small", "-l", "L", "--solver", "find")
    with pytest.raises(UsageError, match="--kernel-cache"):
        fleet("load", "-t", "small", "-l", "L", "--solver", "nest,kernels")
    with pytest.raises(SkipjackError, match="label"):
        fleet("run", "-l", "unheard_of", "--find")
