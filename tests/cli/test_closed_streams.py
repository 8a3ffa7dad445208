"""Commands work the same if the caller closed a standard stream."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import command

Run = Callable[..., subprocess.CompletedProcess[str]]
CLOSED = (">&-", "2>&-", "<&-", ">&- 2>&- <&-")


@pytest.fixture
def closed(user_dir: Path) -> Run:
    def run(how: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        line = ["sh", "-c", f'exec "$@" {how}', "sh", *command(arguments)]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)

    return run


@pytest.mark.parametrize("how", CLOSED)
def test_what_is_listed_goes_where_there_is_room(closed: Run, how: str) -> None:
    done = closed(how, "bank", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in how.replace("2>&-", ""))


@pytest.mark.parametrize("how", CLOSED)
def test_a_wrong_request_is_refused_all_the_same(closed: Run, how: str) -> None:
    done = closed(how, "tune", "nothing")
    assert done.returncode == 2
    assert bool(done.stderr) == ("2>&-" not in how)
    assert "internal" not in done.stderr


def test_tuning_writes_to_the_ledger_and_to_nothing_else(closed: Run, user_dir: Path) -> None:
    done = closed(">&-", "tune", "add:64", "--budget", "1")
    assert done.returncode == 0, done.stderr
    assert "internal" not in done.stderr
    assert (user_dir / "ledger.sqlite").read_bytes().startswith(b"SQLite format 3")
