"""Bad requests: one sentence on standard error, exit code 1 or 2, and no traceback."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from skipjack.app import ranking, tuning
from skipjack.cli import main
from skipjack.errors import ProblemError
from skipjack.native import cpu
from skipjack.operations import arrays_bytes, parse
from skipjack.settings import Settings
from skipjack.tuning import Tuner
from skipjack.tuning.study import TuneOptions
from small_disks import disk

__all__ = ["disk"]

Skipjack = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(
    user_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Skipjack:
    """Runs ``skipjack`` in this process, where nothing has to start."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["skipjack", *words])
        with pytest.raises(SystemExit) as end:
            main.run()
        out, err = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return subprocess.CompletedProcess(words, end.value.code, out, err)

    return run


def sentence(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line on standard error."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("skipjack: ")
    assert "internal error" not in line
    return line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tune", "no problem given"),
        ("tune matmull:8x8x8", "did you mean matmul?"),
        ("tune matmul", "matmul"),
        ("tune matmul:", "matmul:"),
        ("tune matmul:8x8", "needs 3"),
        ("tune matmul:8xax8", "matmul:8xax8"),
        ("tune matmul:-8x8x8", "at least 1"),
        ("tune matmul:0x8x8", "at least 1"),
        ("tune matmul:8x8x8:f32:f64", "nothing else"),
        ("tune sum:8x8/axis=7", "axis"),
        ("tune add:8/axis=1", "axis"),
        ("tune add:4x5/y=3", "shapes 4x5 and 3 cannot be broadcast"),
        ("tune matmul:1000000x1000000x1000000", "GiB"),
        ("tune matmul:200000x200000x200000", "GiB"),
        ("tune add:8 matmul:200000x200000x200000", "GiB"),
        ("tune add:8 --searcher oracle", "unknown searcher 'oracle'"),
        ("tune add:8 --searcher genetic:population=0", "must be from 1 to 10000, not 0"),
        ("tune add:8 --dtype f16", "no solver computes add in f16 on a CPU; choose f32 or f64"),
        ("tune add:8 --dtype f16", "--build-only with --device sm_90/132 or gfx942/304"),
        ("find add:8 --dtype f16", "there is no GPU here, and no solver computes add in f16"),
        ("tune add:8 --dtype f16 --build-only", "name one with --device, such as sm_90/132"),
        ("tune add:8 --device SM_90/132 --build-only", "did you mean sm_90/132"),
        ("tune add:8 --dtype f99", "choose f32, f64, f16 or bf16"),
        ("tune add:8:f64 --dtype f32", "says f64"),
        ("tune add:8 --solver wizard", "unknown solver 'wizard'"),
        ("tune add:8 --solver numpy", "nothing to tune"),
        ("tune add:8 --solver microkernel", "cannot do add:8"),
        ("tune add:8 --budget 0", "0 trials"),
        ("tune add:8 --budget many", "--budget"),
        ("tune add:8 --seconds -1", "-1 seconds"),
        ("tune add:8 --seconds 0", "0 seconds"),
        ("tune add:8 --seconds nan", "nan seconds"),
        ("tune add:8 --seconds inf", "inf seconds"),
        ("tune add:8 --seconds soon", "--seconds"),
        ("tune add:8 --seed -1", "--seed"),
        ("tune add:8 --device znver4", "arch/units"),
        ("tune add:8 --device sm_90/132", "not on this machine"),
        ("tune add:8 --plugin no_such_module", "no_such_module"),
        ("tune add:8 --plugin no_such_file.py", "no_such_file.py"),
        ("tune add:8 --trace no/such/folder/t.json", "no/such/folder"),
        ("tune -f no_such_file", "No such file"),
        ("tune -f .", "Is a directory"),
        ("tune add:8 --frobnicate", "--frobnicate"),
        ("frobnicate", "frobnicate"),
        ("bank frobnicate", "frobnicate"),
        ("bank show", "problem"),
        ("bank show nothing:8", "unknown operation"),
        ("ledger show add:8 --limit 0", "--limit"),
        ("--log-level loud tune add:8", "loud"),
    ],
)
def test_a_wrong_request_is_refused(here: Skipjack, words: str, said: str) -> None:
    assert said in sentence(here(*words.split()), 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("bank show add:8", "try skipjack tune add:8"),
        ("ledger show add:8", "try skipjack tune add:8"),
        ("ledger merge no_such_file", "no_such_file"),
    ],
)
def test_what_is_not_there_is_a_failure(here: Skipjack, words: str, said: str) -> None:
    assert said in sentence(here(*words.split()), 1)


@pytest.mark.parametrize("words", [[], ["bank"], ["ledger"]])
def test_no_command_shows_the_help(skipjack: Skipjack, words: list[str]) -> None:
    done = skipjack(*words)
    assert done.returncode == 2
    assert "Examples:" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_bad_line_is_named_with_its_file(skipjack: Skipjack, tmp_path: Path) -> None:
    listed = tmp_path / "problems.txt"
    listed.write_text("add:8\n\nmatmul:8x8\n")
    assert f"{listed}, line 3: " in sentence(skipjack("tune", "-f", str(listed)), 2)
    listed.write_text("add:8:f99\n")
    assert f"{listed}, line 1: " in sentence(skipjack("tune", "-f", str(listed)), 2)
    done = skipjack("tune", "-f", "-", input="sub:-1\n")
    assert "stdin, line 1: " in sentence(done, 2)


def test_a_file_that_is_no_text_is_refused(skipjack: Skipjack, tmp_path: Path) -> None:
    binary = tmp_path / "problems.bin"
    binary.write_bytes(bytes(range(256)))
    assert "not a text file" in sentence(skipjack("tune", "-f", str(binary)), 2)
    binary.write_bytes(b"\n# nothing\n")
    assert "no problem" in sentence(skipjack("tune", "-f", str(binary)), 2)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SKIPJACK_LOG_LEVEL", "loud"),
        ("SKIPJACK_BUILD_WORKERS", "0"),
        ("SKIPJACK_CORE", "100000"),
        ("SKIPJACK_PLUGINS", "no_such_module"),
    ],
)
def test_a_bad_setting_is_named(skipjack: Skipjack, variable: str, value: str) -> None:
    done = skipjack("tune", "add:8", env={**os.environ, variable: value})
    assert value in sentence(done, 2)


def test_a_directory_that_cannot_be_used_is_named(
    skipjack: Skipjack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for place in (file, file / "below", Path("/proc/nothing")):
        monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(place))
        for words in (["tune", "add:8"], ["ledger", "summary"], ["bank", "rebuild"]):
            assert str(place) in sentence(skipjack(*words), 1)


def test_a_damaged_ledger_is_set_aside_and_the_next_run_works(
    skipjack: Skipjack, user_dir: Path
) -> None:
    user_dir.mkdir()
    (user_dir / "ledger.sqlite").write_bytes(b"not a database" * 500)
    said = sentence(skipjack("tune", "add:8", "--budget", "2"), 1)
    kept = [path for path in user_dir.iterdir() if path.name in said]
    assert any(path.read_bytes().startswith(b"not a database") for path in kept)
    assert skipjack("tune", "add:8", "--budget", "2").returncode == 0


def test_a_damaged_line_of_the_bank_is_named_until_the_bank_is_rebuilt(
    skipjack: Skipjack, user_dir: Path
) -> None:
    user_dir.mkdir()
    (user_dir / "bank.jsonl").write_bytes(b"\xff\xfe{}{}{\n")
    for _ in range(2):
        assert "line 1" in skipjack("bank", "list").stderr
    assert skipjack("bank", "rebuild").returncode == 0
    (kept,) = [path for path in user_dir.iterdir() if path.name.startswith("bank.jsonl.")]
    assert kept.read_bytes() == b"\xff\xfe{}{}{\n"
    assert not skipjack("bank", "list").stderr


def test_files_of_a_newer_version_are_left_alone(skipjack: Skipjack, user_dir: Path) -> None:
    assert skipjack("ledger", "summary").returncode == 0
    ledger, bank = user_dir / "ledger.sqlite", user_dir / "bank.jsonl"
    connection = sqlite3.connect(ledger)
    connection.execute("PRAGMA user_version = 999")
    connection.commit()
    connection.close()
    bank.write_text('{"format": 999, "kind": "bank"}\n')
    before = bank.read_bytes()
    for words in (["ledger", "summary"], ["tune", "add:8"], ["bank", "rebuild"]):
        assert "999" in sentence(skipjack(*words), 1)
    assert "999" in skipjack("bank", "list").stderr
    assert bank.read_bytes() == before
    assert sqlite3.connect(ledger).execute("PRAGMA user_version").fetchone() == (999,)


def test_a_disk_that_fills_up_is_one_sentence(
    skipjack: Skipjack, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(disk))
    (disk / "ballast").write_bytes(b"x" * (300 << 10))
    done = skipjack("tune", "matmul:64x64x64", "--budget", "2000")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("skipjack: disk full")
    assert "SKIPJACK_USER_DB_PATH" in last
    (disk / "ballast").unlink()
    assert skipjack("ledger", "summary").returncode == 0


@pytest.mark.parametrize("said", ["", "Unable to allocate 8 GiB"])
def test_too_little_memory_is_one_sentence(
    here: Skipjack, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    def run_out(**options: object) -> int:
        raise MemoryError(said)

    monkeypatch.setattr(main, "_application", lambda first: run_out)
    line = sentence(here("bank", "list"), 1)
    assert "out of memory" in line
    assert said in line


@pytest.mark.parametrize(("share", "refused"), [(0.95, False), (0.85, True)])
def test_the_share_of_memory_that_a_user_set_decides(
    tmp_path: Path, share: float, refused: bool
) -> None:
    problem = parse("matmul:64x64x64")
    device = replace(cpu.detect(), memory_bytes=int(arrays_bytes(problem) / 0.9))
    tuner = Tuner(Settings(tmp_path, limits={"memory_share": share}), device)
    with pytest.raises(ProblemError) if refused else nullcontext():
        tuning._check(tuner, [problem], TuneOptions())
    with pytest.raises(ProblemError) if refused else nullcontext():
        assert ranking._fitting(problem, tuner, alone=True) is problem
