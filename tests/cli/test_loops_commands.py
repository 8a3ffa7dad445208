"""``skipjack loops dataset`` and ``show`` as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import UsageError

LOOPTUNE = ("--kind=mm", "--dimA=64:256:16,64:256:16", "--dimB=64:256:16,64:256:16")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def loops(*words: str) -> str:
    done = CliRunner().invoke(app, ["loops", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_dataset_is_made_in_both_spellings_and_found_by_its_name() -> None:
    said = loops("dataset", *LOOPTUNE, "-o", "mm64_256_16")
    assert "2197 problems, 1977 to train on and 220 to be judged on" in said
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("matmul:8x8x8", "--actions", "split_4,up"), "action 2 of 2, up, is not legal: .*outerm"),
        (("matmul:8x8x8", "--actions", "jump"), "action 1 of 1, 'jump', is not one of the preset"),
        (("nowhere:8x8x8",), "there is no dataset 'nowhere'"),
        (("nowhere",), "there is no dataset 'nowhere'"),
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
    with pytest.raises(UsageError, match="a dataset of 4 problems; name one, as maps:64x64"):
        loops("show", "maps")
