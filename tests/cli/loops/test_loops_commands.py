"""``skipjack loops dataset``, ``show`` and ``play`` as run by users."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from processes import PATIENCE_S, command
from skipjack.cli.main import app
from skipjack.errors import UsageError

LOOPTUNE = ("--kind=mm", "--dimA=64:256:16,64:256:16", "--dimB=64:256:16,64:256:16")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def loops(*words: str, typed: str = "") -> str:
    done = CliRunner().invoke(app, ["loops", *words], input=typed, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_dataset_is_made_in_both_spellings_and_found_by_its_name() -> None:
    said = loops("dataset", *LOOPTUNE, "-o", "mm64_256_16")
    assert "2197 problems, 1977 for training and 220 for testing" in said
    small = ("--dim-a", "64:80:16,64", "--dim-b", "64,64:80:16")
    record = json.loads(loops("dataset", "--kind", "mm", *small, "--out", "sub/small", "--json"))
    assert (record["train"], record["test"]) == (3, 1)
    assert Path("sub/small.json").is_file()
    for name in ("mm64_256_16:112x208x256", "small:64_80_64", "sub/small.json:64x64x64"):
        assert "for m in" in loops("show", name)


def test_show_prints_the_loops_after_every_action() -> None:
    said = loops("show", "matmul:128x96x64", "--actions", "split_4,down,swap_down", "--tree")
    lines = said.splitlines()
    assert lines[0] == "matmul:128x96x64:f32, preset looptune"
    heads = [line.split()[:2] for line in lines if line[:4].strip().isdigit()]
    assert heads == [["0", "start"], ["1", "split_4"], ["2", "down"], ["3", "swap_down"]]
    assert lines[-5].strip() == "for m in 32 : L0"
    assert lines[-3].strip() == "for m' in 4 : L2 <--"
    assert said.count("out[m,n] = sum(a[m,k] * b[k,n])") == 4
    brief = loops("show", "--bench=matmul:128x96x64", "--actions", "split_4,down")
    assert brief.count("out[m,n]") == 1


def test_show_prints_records_and_code() -> None:
    words = ("matmul:128x96x64", "--preset", "full", "--actions", "down,down,split_8", "--json")
    *records, last = map(json.loads, loops("show", *words, "--code").splitlines())
    assert [record["schedule"] for record in records][-1] == "m k n:8 n"
    assert "define" in last["code"]
    assert "define" in loops("show", "matmul:8x8x8", "--code")


def test_show_prints_rates_after_every_action() -> None:
    words = ("matmul:64x64x64", "--actions", "split_16,down", "--rates", "--rates-from", "model")
    records = [json.loads(line) for line in loops("show", *words, "--json").splitlines()]
    rates = [record["gflops"] for record in records]
    assert all(rate > 0 for rate in rates)
    assert rates[1] == rates[2]
    assert loops("show", *words).count("GFLOP/s") == 3


def test_a_game_is_played_from_lines() -> None:
    typed = "down\ndown, split_16\njump\nback\nup\nq\nup\n"
    said = loops("play", "matmul:64x64x64", "--no-rates", typed=typed)
    assert "actions:  down,down,up" in said
    assert "jump: there is no action 'jump'" in said
    rated = loops("play", "matmul:64x64x64", "--rates-from", "model", typed="split_4")
    assert "GFLOP/s, at first" in rated


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_game_is_played_by_keys(interrupted: bool) -> None:
    ours, theirs = pty.openpty()
    words = command(("loops", "play", "matmul:64x64x64", "--preset", "full", "--no-rates"))
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        said = read_until(ours, b"quit")  # keys that are pressed before are lost
        os.write(ours, b"j\x1b[Bs16\nb" + b"s8\njvx")
        if interrupted:
            said += read_until(ours, b"vectorize <--")
            process.send_signal(signal.SIGINT)
        else:
            os.write(ours, b"q")
        said += read_until(ours, b"schedule: m k n:8 n/v")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"actions:  down,down,split_8,down,vectorize" in said
    assert b"\x1b[" in said, "the board is redrawn in its place"
    assert rb"\x1b" not in said, "what moves the cursor is obeyed, not spelled out"


def test_the_prompt_for_a_factor_is_left_by_any_other_key() -> None:
    ours, theirs = pty.openpty()
    words = command(("loops", "play", "matmul:64x64x64", "--no-rates"))
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    try:
        said = read_until(ours, b"quit")
        os.write(ours, b"sx" + b"s4\n" + b"s3\nq")
        said += read_until(ours, b"schedule: ")
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"'split_'" not in said
    assert b"no action 'split_3'" in said
    assert b"actions:  split_4\r" in said


def read_until(terminal: int, wanted: bytes) -> bytes:
    said = b""
    while wanted not in said:
        assert select.select([terminal], [], [], PATIENCE_S)[0], said.decode()
        said += os.read(terminal, 4096)
    return said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("matmul:8x8x8", "--actions", "split_4,up"), "action 2 of 2, up, is not legal: .*outerm"),
        (("matmul:8x8x8", "--actions", "jump"), "action 1 of 1, 'jump', is not an action"),
        (("nowhere:8x8x8",), "unknown dataset 'nowhere'"),
        (("nowhere",), "unknown dataset 'nowhere'"),
        (("softmax:8x8",), "not a single loop nest"),
        (("matmul:8x8x8", "--preset", "all"), "no preset 'all'"),
        ((), "no problem given"),
    ],
)
def test_a_bad_request_is_one_sentence(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        loops("show", *words)


def test_a_whole_dataset_cannot_be_shown() -> None:
    loops("dataset", "--kind", "elementwise", "--dim-a", "64,64", "-o", "maps")
    with pytest.raises(
        UsageError, match="a dataset of 4 problems; name one of them, such as maps:64x64"
    ):
        loops("show", "maps")
