"""``skipjack plan`` as run by users, with the real commands."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skipjack.cli.command_book import command_book
from skipjack.cli.main import app

Skipjack = Callable[..., CompletedProcess[str]]
PLAN = """
name: small
defaults: {tag: small}
steps:
  - import: {file: problems.txt}
  - store tags
  - status: {label: nowhere}
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan in a directory of its own, whose last step fails."""
    home = tmp_path / "plans"
    home.mkdir()
    (home / "problems.txt").write_text("relu:64\n")
    (home / "cycle.yaml").write_text(PLAN)
    return home / "cycle.yaml"


def test_the_book_knows_every_command_and_its_options() -> None:
    book = command_book(app)
    assert {"import", "load", "run", "bank build", "export kernel-db", "plan run"} <= book.keys()
    load = book["load"]
    label, everything = load.find("label"), load.find("all")
    assert label and label.required and label.short == "l"
    assert everything and everything.flag and load.find("everything") is None
    problems = book["tune"].find("problems")
    assert problems and problems.repeatable and not problems.word
    assert load.parse(["--label", "L", "--budget", "8"]) is None
    complaint = load.parse(["--label", "L", "--budget", "0"])
    assert complaint and complaint.parameter == "budget"


@pytest.mark.parametrize(
    ("command", "words", "said"),
    [
        ("run", "-l L --find --kernel-cache", "are two runs"),
        ("run", "-l L --nodes 2", "-N: only for --engine slurm"),
        ("run", "-l L --engine ray --image x", "--image is for --engine local"),
        ("tune", "add:64 --build-only --seconds 3", "--seconds has no effect with --build-only"),
        ("tune", "add:64 --set rows", "'rows' has no value"),
        ("status", "--state nope", "unknown state 'nope'"),
        ("compare", "A --against B --min-effect few", "--min-effect is 'few'; write a percentage"),
        ("promote", "L", "give --into DIR"),
        ("export find-db", "-o out --alias gfx900", "alias 'gfx900' is not of the form"),
        ("export perf-db", "-o out -a gfx900", "-a and -n go together"),
    ],
)
def test_a_step_has_to_become_the_request_of_its_command(
    command: str, words: str, said: str
) -> None:
    complaint = command_book(app)[command].parse(words.split())
    assert complaint and said in complaint.sentence


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("tune", "no_such_directory -f not_there.txt"),
        ("find", "add:64 --plots nowhere/at/all"),
        ("sweep", "not_there.json"),
        ("compare", "not_there.txt --against not_there --csv nowhere/at/all.csv"),
        ("promote", "L --into not_there"),
        ("status", "-l not_there"),
    ],
)
def test_a_request_does_not_ask_for_files_that_earlier_steps_may_write(
    command: str, words: str
) -> None:
    assert command_book(app)[command].parse(words.split()) is None


@pytest.mark.long
def test_a_plan_is_run_from_its_own_directory_and_resumed(skipjack: Skipjack, plan: Path) -> None:
    first = skipjack("plan", "run", str(plan))
    assert first.returncode == 2
    assert [line for line in first.stdout.splitlines() if line.startswith("step ")] == [
        "step 1 of 3: import",
        "step 2 of 3: store tags",
        "step 3 of 3: status",
    ]
    assert "step 3 of plan small, status (line 7), failed with exit code 2" in first.stderr
    assert (plan.parent / "cycle.progress.jsonl").exists()
    shown = skipjack("plan", "show", str(plan), "--json")
    stands = [json.loads(line)["standing"] for line in shown.stdout.splitlines()]
    assert stands == ["done", "done", "failed"]
    plan.write_text(PLAN.replace("status: {label: nowhere}", "status"))
    (plan.parent / "problems.txt").unlink()  # a finished step needs its file no more
    again = skipjack("plan", "run", str(plan), "--json")
    assert again.returncode == 0, again.stderr
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    assert [(line["format"], line["event"], line["step"]) for line in lines] == [
        (1, "begun", 3),
        (1, "finished", 3),
    ]
    assert "nothing is left to do" in skipjack("plan", "run", str(plan)).stdout


def test_nothing_starts_if_anything_is_wrong(
    skipjack: Skipjack, plan: Path, user_dir: Path
) -> None:
    plan.write_text(PLAN.replace("nowhere}", "nowhere, limit: few}").replace("tags", "tasg"))
    checked = skipjack("plan", "check", str(plan))
    assert checked.returncode == 2
    assert [line.split(": ")[0] for line in checked.stdout.splitlines()] == [
        f"{plan}:6",
        f"{plan}:7",
    ]
    refused = skipjack("plan", "run", str(plan))
    assert refused.returncode == 2
    assert "unknown command 'store tasg'; did you mean store tags" in refused.stderr
    assert not user_dir.exists()
    assert not (plan.parent / "cycle.progress.jsonl").exists()


def test_a_dry_run_prints_commands_that_can_be_typed(skipjack: Skipjack, plan: Path) -> None:
    done = skipjack("plan", "run", str(plan), "--dry-run", "--from", "store tags")
    assert done.stdout.splitlines() == ["skipjack store tags", "skipjack status --label nowhere"]
    assert not (plan.parent / "cycle.progress.jsonl").exists()


def test_the_example_has_no_mistakes(skipjack: Skipjack, tmp_path: Path) -> None:
    path = tmp_path / "example.yaml"
    assert skipjack("plan", "init", str(path)).returncode == 0
    checked = skipjack("plan", "check", str(path))
    assert checked.stdout == "nightly: 6 steps, no mistakes\n", checked.stderr
    assert "exists already" in skipjack("plan", "init", str(path)).stderr
