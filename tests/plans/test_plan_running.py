"""Steps run in order, once; after any interruption, running again continues."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from books import checked, plan_file

from processes import PATIENCE_S, gone
from skipjack.errors import CorruptFileError, NewerFormatError, SkipjackError, StepError, UsageError
from skipjack.plans import (
    PlannedStep,
    PlanProgress,
    PlanRun,
    StepState,
    find_step,
    run_steps,
    state_of_step,
    to_do,
)
from skipjack.plans.progress import Event
from skipjack.processes import environment_for

STAND_IN = """
import pathlib, sys, time
with open('ran.txt', 'a') as file: file.write(sys.argv[-1] + '\\n')
if sys.argv[-1] == 'broken' and not pathlib.Path('mended').exists(): sys.exit(3)
if sys.argv[-1] == 'long' and not pathlib.Path('mended').exists(): time.sleep(60)
"""
"""Writes down what it was told to do; `broken` fails and `long` lasts until they are mended."""


def steps_of(directory: Path, *labels: str) -> tuple[PlannedStep, ...]:
    lines = [f"  - status: {{label: {label}}}\n" for label in labels]
    steps, mistakes = checked(plan_file(directory, "".join(lines)))
    assert not mistakes
    return steps


def run(directory: Path, *labels: str) -> list[Mapping[str, object]]:
    """Run what is left of a plan with these steps; what was observed."""
    seen: list[Mapping[str, object]] = []
    with PlanProgress(directory / "p.jsonl") as progress:
        left = to_do(steps_of(directory, *labels), progress.history())
        prefix = (sys.executable, "-c", STAND_IN)
        run_steps(PlanRun("cycle", left, directory, prefix), progress, seen.append)
    return seen


def ran(directory: Path) -> list[str]:
    return (directory / "ran.txt").read_text().split()


def test_each_step_runs_once_and_new_ones_are_appended(tmp_path: Path) -> None:
    seen = run(tmp_path, "a", "b")
    assert [(line["event"], line["step"]) for line in seen] == [
        *(("begun", 1), ("finished", 1), ("begun", 2), ("finished", 2)),
    ]
    assert run(tmp_path, "a", "b") == []
    run(tmp_path, "a", "b", "c")
    assert ran(tmp_path) == ["a", "b", "c"]


def test_a_failed_step_ends_the_plan_with_its_exit_code_and_is_run_again(tmp_path: Path) -> None:
    with pytest.raises(
        StepError, match=r"step 2 of plan cycle, status \(line 3\), failed"
    ) as caught:
        run(tmp_path, "a", "broken", "c")
    assert caught.value.exit_code == 3
    assert PlanProgress(tmp_path / "p.jsonl").history().done.keys() == {1}
    (tmp_path / "mended").touch()
    run(tmp_path, "a", "broken", "c")
    assert ran(tmp_path) == ["a", "broken", "broken", "c"]


def test_a_finished_step_that_was_changed_is_named(tmp_path: Path) -> None:
    run(tmp_path, "a", "b")
    with pytest.raises(UsageError, match=r"step 1, status, was changed .* --from 1 .* --restart"):
        run(tmp_path, "x", "b", "c")
    with pytest.raises(UsageError, match="step 1, status, was changed"):
        run(tmp_path, "new", "a", "b")
    assert ran(tmp_path) == ["a", "b"]


def test_a_step_that_was_switched_on_later_is_named(tmp_path: Path) -> None:
    steps = steps_of(tmp_path, "a", "b", "c")
    with PlanProgress(tmp_path / "p.jsonl") as progress:
        for step in (steps[0], steps[2]):
            progress.step(Event.FINISHED, step)
    history = progress.history()
    with pytest.raises(UsageError, match="step 2, status, was never run, but step 3 after it was"):
        to_do(steps, history)
    assert [state_of_step(step, history) for step in steps] == ["done", "waiting", "done"]


def test_going_on_from_a_step_takes_those_before_as_done(tmp_path: Path) -> None:
    run(tmp_path, "a", "b")
    changed = steps_of(tmp_path, "x", "b", "c")
    with PlanProgress(tmp_path / "p.jsonl") as progress:
        progress.go_on_from(changed[1], changed[:1])
        assert to_do(changed, progress.history()) == changed[1:]
        progress.restart()
        assert to_do(changed, progress.history()) == changed


def test_steps_are_found_by_number_name_or_command(tmp_path: Path) -> None:
    text = "  - status\n  - status:\n    name: again\n  - import: {file: x}"
    steps, _ = checked(plan_file(tmp_path, text))
    assert [find_step(steps, word).number for word in ("2", "again", "import")] == [2, 2, 3]
    with pytest.raises(UsageError, match="several steps are 'status'; choose one by number: 1, 2"):
        find_step(steps, "status")
    with pytest.raises(UsageError, match="no step 'imprt'; did you mean import"):
        find_step(steps, "imprt")
    with pytest.raises(UsageError, match="no step '9'; it has 3"):
        find_step(steps, "9")


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from test_plan_running import run
try:
    run(Path({directory!r}), "a", "long", "c")
except KeyboardInterrupt:
    sys.exit(130)
"""


def begin_long_step(directory: Path) -> subprocess.Popen[bytes]:
    """A plan in a process of its own that is in the middle of its second step."""
    here = Path(__file__).parent
    code = CHILD.format(paths=[str(here), str(here.parent)], directory=str(directory))
    child = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + PATIENCE_S
    while not (directory / "ran.txt").exists() or ran(directory) != ["a", "long"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return child


def grandchildren(parent: int) -> set[int]:
    """The steps that a plan has started."""
    listed = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return {int(word) for word in listed.split()}


def test_ctrl_c_ends_the_step_and_running_again_goes_on_with_it(tmp_path: Path) -> None:
    child = begin_long_step(tmp_path)
    steps = grandchildren(child.pid)
    with pytest.raises(SkipjackError, match=f"this plan is already running: process {child.pid}"):
        run(tmp_path, "a", "long", "c")
    progress = PlanProgress(tmp_path / "p.jsonl")
    stands = [
        state_of_step(step, progress.history(), running=progress.running())
        for step in steps_of(tmp_path, "a", "long", "c")
    ]
    assert stands == ["done", "running", "waiting"]
    child.send_signal(signal.SIGINT)
    assert child.wait(PATIENCE_S) == 130
    assert len(steps) == 1 and gone(steps)
    last = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[-1])
    assert (last["event"], last["step"]) == ("interrupted", 2)
    assert not progress.running()
    (tmp_path / "mended").touch()
    run(tmp_path, "a", "long", "c")
    assert ran(tmp_path) == ["a", "long", "long", "c"]


def test_a_killed_plan_takes_its_step_along_and_runs_it_again(tmp_path: Path) -> None:
    child = begin_long_step(tmp_path)
    steps = grandchildren(child.pid)
    child.kill()
    child.wait(PATIENCE_S)
    assert len(steps) == 1 and gone(steps)
    history = PlanProgress(tmp_path / "p.jsonl").history()
    assert state_of_step(steps_of(tmp_path, "a", "long")[1], history) is StepState.INTERRUPTED
    (tmp_path / "mended").touch()
    run(tmp_path, "a", "long", "c")
    assert ran(tmp_path) == ["a", "long", "long", "c"]


def test_half_a_line_at_the_end_is_overlooked_and_cut(tmp_path: Path) -> None:
    run(tmp_path, "a")
    path = tmp_path / "p.jsonl"
    with path.open("a") as file:
        file.write('{"format": 1, "event": "fini')
    run(tmp_path, "a", "b")
    assert ran(tmp_path) == ["a", "b"]
    assert all(json.loads(line)["format"] == 1 for line in path.read_text().splitlines())


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"format": 1, "event": "danced"}'])
def test_a_file_that_is_no_progress_is_refused_and_kept(tmp_path: Path, line: str) -> None:
    (tmp_path / "p.jsonl").write_text(f"{line}\n")
    with pytest.raises(CorruptFileError, match=r"p.jsonl:1 is not a line"):
        run(tmp_path, "a")
    assert (tmp_path / "p.jsonl").read_text() == f"{line}\n"


def test_progress_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"format": 2}\n')
    with pytest.raises(NewerFormatError, match=r"p.jsonl:1 was written by a newer"):
        run(tmp_path, "a")


def test_variables_that_name_files_mean_the_same_in_another_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "SKIPJACK_USER_DB_PATH": "user",
        "SKIPJACK_DB": "sqlite:///fleet.sqlite",
        "SKIPJACK_PLUGINS": os.pathsep.join(["mine.py", "theirs"]),
        "SKIPJACK_FLEET_KEY": "/etc/fleet.key",
        "SKIPJACK_SSH_CONFIG": "ssh.config",
        "SKIPJACK_MIOPEN_DRIVER": "MIOpenDriver",
        "SKIPJACK_CONTAINER_ENGINE": "bin/podman",
        "HOME": "x",
    }
    assert environment_for(tmp_path, given) == given
    assert environment_for(Path("/"), given) == {
        "SKIPJACK_USER_DB_PATH": f"{tmp_path}/user",
        "SKIPJACK_DB": f"sqlite:///{tmp_path}/fleet.sqlite",
        "SKIPJACK_PLUGINS": os.pathsep.join([f"{tmp_path}/mine.py", "theirs"]),
        "SKIPJACK_FLEET_KEY": "/etc/fleet.key",
        "SKIPJACK_SSH_CONFIG": f"{tmp_path}/ssh.config",
        "SKIPJACK_MIOPEN_DRIVER": f"{tmp_path}/MIOpenDriver",
        "SKIPJACK_CONTAINER_ENGINE": f"{tmp_path}/bin/podman",
        "HOME": "x",
    }
    words = {"SKIPJACK_CONTAINER_ENGINE": "podman", "SKIPJACK_SSH_CONFIG": "none"}
    assert environment_for(Path("/"), words) == words
