"""`skipjack tune DIR` and `skipjack import DIR`: problems that a program dumped."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.dumps import Dump, folder_name
from skipjack.settings import load_settings

Skipjack = Callable[..., subprocess.CompletedProcess[str]]
QUICK = ("--budget", "2", "--json")


@pytest.fixture
def dump(tmp_path: Path, user_dir: Path) -> Path:
    """Of three problems, the last of which takes the most time."""
    one = Dump(tmp_path / "dump", load_settings(), torch="2.13.0")
    for key, calls, ns in (("add:64", 10, 100.0), ("relu:64", 20, 1e3), ("matmul:8x8x8", 30, 1e4)):
        one.add(parse(key), cpu.detect(1), calls, ns, "aten::x")
    one.flush(seconds=0.0)
    return one.folder


def tuned(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [json.loads(line)["problem"] for line in done.stdout.splitlines()]


def problem_file(dump: Path, key: str) -> Path:
    return dump / folder_name(parse(key).key, cpu.detect(1).class_key) / "problem.json"


def test_a_dump_is_tuned_most_valuable_first_and_continues(skipjack: Skipjack, dump: Path) -> None:
    before = {path: path.read_bytes() for path in dump.rglob("*.json")}
    first = skipjack("tune", str(dump), *QUICK)
    assert first.returncode == 0, first.stderr
    assert tuned(first) == ["matmul:8x8x8:f32", "relu:64:f32", "add:64:f32"]
    assert "3 problems to tune, matmul:8x8x8:f32 first" in first.stderr
    again = skipjack("tune", str(dump), *QUICK)
    assert (again.returncode, again.stdout) == (0, "")
    assert "0 problems to tune; 3 tuned before" in again.stderr
    assert {path: path.read_bytes() for path in dump.rglob("*.json")} == before
    problem_file(dump, "relu:64").parent.rename(dump / "renamed")
    over = skipjack("tune", str(dump / "renamed"), "--retune", *QUICK)
    assert tuned(over) == ["relu:64:f32"]


def test_autotunes_variables_count_for_a_dump_too(
    skipjack: Skipjack, dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bank").mkdir()
    monkeypatch.setenv("TUNE_BANK_PATH", str(tmp_path / "bank"))
    monkeypatch.setenv("REPEAT_TUNE", "often")
    one = str(problem_file(dump, "add:64").parent)
    done = skipjack("tune", one, *QUICK)
    assert tuned(done) == ["add:64:f32"]
    assert "REPEAT_TUNE is 'often', which is ignored: write True or False" in done.stderr
    assert "add:64:f32" in (tmp_path / "bank" / "bank.jsonl").read_text()
    monkeypatch.setenv("REPEAT_TUNE", "True")
    assert tuned(skipjack("tune", one, *QUICK)) == ["add:64:f32"]


def test_what_cannot_be_tuned_is_named_and_the_others_are(skipjack: Skipjack, dump: Path) -> None:
    good = problem_file(dump, "add:64").read_text()
    for name, text in {"cut": good[:30], "odd": good.replace("add:64", "frobnicate:64")}.items():
        (dump / name).mkdir()
        (dump / name / "problem.json").write_text(text)
    done = skipjack("tune", str(dump), *QUICK)
    assert done.returncode == 1 and len(tuned(done)) == 3
    assert f"{dump}/cut/problem.json:3: this is not JSON" in done.stderr
    assert f"{dump}/odd: unknown operation 'frobnicate'" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_dump_of_another_class_is_one_sentence(skipjack: Skipjack, dump: Path) -> None:
    here = cpu.detect(1)
    for path in dump.glob("*/problem.json"):
        path.write_text(path.read_text().replace(here.class_key, "cpu:other/1:0123"))
    done = skipjack("tune", str(dump), *QUICK)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("device class") == 1
    assert (
        f"3 problems left out: the dump is of device class cpu:other/1:0123, but {here.name}"
        in (done.stderr)
    )
    forced = skipjack("tune", str(dump), "--device", here.name, *QUICK)
    assert forced.returncode == 0 and len(tuned(forced)) == 3


def test_a_device_that_is_not_here_is_one_sentence(skipjack: Skipjack, dump: Path) -> None:
    for path in dump.glob("*/problem.json"):
        path.write_text(path.read_text().replace(cpu.detect(1).name, "sm_90/132"))
    done = skipjack("tune", str(dump), *QUICK)
    assert (done.returncode, done.stdout) == (1, "")
    assert "3 problems left out: device sm_90/132 is not on this machine" in done.stderr
    built = skipjack("tune", str(dump), "--device", "haswell/1", "--build-only", "--budget", "1")
    assert built.returncode == 0 and built.stdout.count("1 of 1 built") == 3


def test_a_dump_that_is_not_there_is_one_sentence(skipjack: Skipjack) -> None:
    done = skipjack("tune", "./nowhere", "--budget", "1")
    assert done.returncode == 2
    assert "there is no directory ./nowhere" in done.stderr
    command = "./bin/MIOpenDriver gemm --a_h 0"
    assert "there is no directory" not in skipjack("tune", command, "--budget", "1").stderr


def test_a_problem_that_no_solver_takes_is_named(skipjack: Skipjack, dump: Path) -> None:
    done = skipjack("tune", str(dump), "--solver", "rows", *QUICK)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("solver rows cannot do") == 3


def test_what_says_nothing_about_a_dump_is_refused(
    skipjack: Skipjack, dump: Path, tmp_path: Path
) -> None:
    for more, said in {
        ("--dtype", "f64"): "leave -f, --shapes, --dtype, --layout and --direction out",
        ("relu:8",): "is a dump; name dumps only",
        ("-f", "x.txt"): "whose problems have shapes, dtypes",
    }.items():
        done = skipjack("tune", str(dump), *more)
        assert done.returncode == 2 and said in done.stderr, more
    (tmp_path / "empty").mkdir()
    done = skipjack("tune", str(tmp_path / "empty"))
    assert done.returncode == 2 and "is not a dump" in done.stderr


def test_a_dump_becomes_problems_of_the_fleet(
    skipjack: Skipjack, dump: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_DB", f"sqlite:///{tmp_path}/fleet.sqlite")
    (dump / "odd").mkdir()
    (dump / "odd" / "problem.json").write_text("{}")
    done = skipjack("import", str(dump), "-t", "train", "--json")
    assert done.returncode == 1, "a folder is damaged"
    assert json.loads(done.stdout)["imported"] == 3
    assert f"{dump}/odd/problem.json: the field format is missing" in done.stderr
    device = cpu.detect(1).name
    assert f"skipjack load -t train -l train --device {device}" in done.stderr
    assert skipjack("load", "-t", "train", "-l", "train", "--device", device).returncode == 0
    from skipjack.fleet.store import open_store

    with open_store(f"sqlite:///{tmp_path}/fleet.sqlite") as store:
        jobs = [job.plan.problem for job in store.jobs.find(label="train")]
    assert jobs == ["matmul:8x8x8:f32", "relu:64:f32", "add:64:f32"]


def test_import_wants_a_dump_or_a_file(skipjack: Skipjack, dump: Path) -> None:
    done = skipjack("import", str(dump), "-f", "x", "-t", "t")
    assert done.returncode == 2 and "either a dump" in done.stderr
    done = skipjack("import", str(problem_file(dump, "add:64")), "-t", "t")
    assert done.returncode == 2 and "is not a directory, as dumps are" in done.stderr
