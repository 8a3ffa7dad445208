"""``skipjack loops train`` as run by users."""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch")

from processes import PATIENCE_S, command
from skipjack.cli.main import app
from skipjack.errors import InterruptedRunError, MalformedError, SkipjackError, UsageError
from skipjack.interrupt import Interrupt
from skipjack.learn.loops import Preset, read_dataset
from skipjack.learn.policy import find_policy, read_weights
from skipjack.learn.runs import RunFolder
from skipjack.learn.runs.learners import OwnLearner

SMALL = ("--episodes", "4", "--episode-steps", "5", "--eval-size", "0")


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def dataset() -> str:
    dims = ("--dim-a", "16:32:16,16:32:16", "--dim-b", "16:32:16,16:32:16")
    loops("dataset", "--kind", "mm", *dims, "-o", "few")
    return "few"


def loops(*words: str) -> str:
    done = CliRunner().invoke(app, ["loops", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def train(*words: str) -> str:
    return loops("train", *words)


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def learned(run: str) -> dict[str, np.ndarray]:
    return read_weights(Path(run) / "policy.npz")


def same(mine: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return mine.keys() == other.keys() and all(np.array_equal(mine[k], other[k]) for k in mine)


def without_time(path: str) -> list[dict[str, str]]:
    return [{name: row[name] for name in row if name != "seconds"} for row in rows(path)]


def test_a_run_folder_has_all_that_is_documented(dataset: str) -> None:
    said = train(
        *("--dataset", dataset, "--total-steps", "40", "--out", "run", "--episodes", "4"),
        *("--eval-size", "1", "--eval-time", "5", "--eval-budget", "4", "--eval-rates", "model"),
    )
    assert "Times for training are estimated (--rates model)" in said
    assert "Times of schedules in training: " in said
    assert said.splitlines()[-1] == "Saved at: run/evaluation"
    record = json.loads(Path("run/run.json").read_text())
    assert record["options"]["trainer"] == "ppo"
    assert (record["trained_on"], record["judged_on"]) == ("estimated", "estimated")
    (session,) = record["sessions"]
    assert (session["ended"], session["to_step"]) == ("done", 40)
    assert session["schedules"].keys() == {"estimated"}
    (curve,) = rows("run/curves.csv")
    assert (curve["iteration"], curve["steps"], curve["episodes"]) == ("1", "40", "4")
    steps = rows("run/steps.csv")
    assert len(steps) == 40
    ends = [step for step in steps if step["schedule"]]
    assert len(ends) == 4
    rewards = sum(float(step["reward"]) for step in steps if step["episode"] == "0")
    assert np.exp(rewards) == pytest.approx(float(ends[0]["speed_up"]), rel=1e-4)
    judged = {row["search"] for row in rows("run/evaluation/steps.csv")}
    assert {"policy", "random", "beam-4-lookahead-2"} <= judged
    assert find_policy("run", Preset.LOOPTUNE).network.actions == 7


@pytest.mark.parametrize("trainer", ["ppo", "dqn.ApexTrainer"])
def test_an_interrupted_and_resumed_run_equals_one_that_was_not(
    dataset: str, trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--dataset", dataset, "--trainer", trainer, *SMALL, "--seed", "3")
    train(*words, "--total-steps", "60", "--out", "whole")
    assert len(rows("whole/curves.csv")) == 3

    with monkeypatch.context() as patch:
        asked = iter([False, True])  # before the first iteration, and before the second
        requested = property(lambda _: next(asked), lambda *_: None)
        patch.setattr(Interrupt, "requested", requested, raising=False)
        with pytest.raises(
            InterruptedRunError, match="20 of 60 steps are done and saved; continue"
        ):
            train(*words, "--total-steps", "60", "--out", "cut")
    assert len(rows("cut/curves.csv")) == 1
    train("--resume", "cut")

    assert same(learned("cut"), learned("whole"))
    assert without_time("cut/curves.csv") == without_time("whole/curves.csv")
    assert rows("cut/steps.csv") == rows("whole/steps.csv")
    record = json.loads(Path("cut/run.json").read_text())
    assert [each["ended"] for each in record["sessions"]] == ["interrupted", "done"]
    assert record["sessions"][1]["from_step"] == 20


def test_what_was_written_after_the_last_checkpoint_is_played_again(dataset: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "40", "--out", "run")
    before = learned("run"), without_time("run/curves.csv"), rows("run/steps.csv")
    for name in ("curves.csv", "steps.csv"):
        with Path(f"run/{name}").open("a") as file:
            file.write("3,60,9.9,4\n3,0,mat")  # as a process that was killed left it
    train("--resume", "run")
    assert (without_time("run/curves.csv"), rows("run/steps.csv")) == before[1:]
    train("--resume", "run", "--total-steps", "60")
    train("--dataset", dataset, *SMALL, "--total-steps", "60", "--out", "whole")
    assert same(learned("run"), learned("whole"))
    assert len(list(Path("run/checkpoints").iterdir())) == 2


def test_ctrl_c_saves_a_checkpoint_and_says_how_to_go_on(dataset: str) -> None:
    words = ("loops", "train", "--dataset", dataset, *SMALL, "--out", "run")
    with subprocess.Popen(command(words), stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not Path("run/curves.csv").exists():
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert said.splitlines()[-1].endswith("continue with skipjack loops train --resume run")
    assert "Traceback" not in said
    done = int(rows("run/curves.csv")[-1]["steps"])
    train("--resume", "run", "--total-steps", str(done + 20))
    assert int(rows("run/curves.csv")[-1]["steps"]) == done + 20


def test_a_run_may_begin_with_a_policy(dataset: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "first")
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "next", "--start", "first")
    assert same(read_weights(Path("next/start.npz")), learned("first"))
    assert not same(learned("next"), learned("first"))


def test_a_run_by_looptunes_words(dataset: str) -> None:
    words = ("--app=rllib_agent.py", "-ng=2", "--iter=2", "--steps=5", "--eval_size=0")
    said = train(*words, f"--dataset={dataset}", "--trainer=dqn.ApexTrainer", "--out", "run")
    assert "--app is not needed" in said
    assert "-ng is not needed: no GPU is used for training" in said
    record = json.loads(Path("run/run.json").read_text())
    assert record["options"]["total_steps"] == 2 * 32 * 5
    assert [row["episodes"] for row in rows("run/curves.csv")] == ["32", "32"]


def test_iterations_have_as_many_episodes_as_the_trainers_play() -> None:
    from skipjack.cli.loops.train import EPISODES
    from skipjack.learn.training import DQNOptions, PPOOptions

    assert EPISODES["ppo"] == PPOOptions().episodes
    assert EPISODES["dqn"] == DQNOptions().episodes


def test_iterations_are_json_lines_for_machines(dataset: str) -> None:
    said = train("--dataset", dataset, *SMALL, "--total-steps", "40", "--out", "run", "--json")
    lines = [json.loads(line) for line in said.splitlines()]
    assert [line["steps"] for line in lines if "steps" in line] == [20, 40]


def test_runs_get_names_of_their_own(dataset: str) -> None:
    for _ in range(2):
        train("--dataset", dataset, *SMALL, "--total-steps", "20", "--trainer", "ppo.PPOTrainer")
    assert sorted(path.name for path in Path("runs").iterdir()) == ["few-ppo-0", "few-ppo-0-2"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--dataset", "absent"), "unknown dataset 'absent'"),
        (("--trainer", "a3c"), "unknown trainer 'a3c'; choose from ppo, dqn, sb3"),
        (("--total-steps", "0"), "--total-steps is 0; it must be 1 or more"),
        (("--total-steps", "-5"), "--total-steps is -5; it must be 1 or more"),
        (("--episode-steps", "1001"), "--episode-steps is 1001; it must be 1000 or less"),
        (("--episodes", "100001"), "--episodes is 100001; it must be 100000 or less"),
        (("--seed", str(2**32)), "--seed is 4294967296; it must be 4294967295 or less"),
        (("--eval-time", "inf"), "--eval-time is inf; give a finite number of seconds above 0"),
        (("--rates", "exactly:"), "rates 'exactly:' have no path"),
        (("--iter", "0"), "--iter is 0; give 1 or more"),
        (("--iter", "1", "--total-steps", "9"), "--iter and --total-steps both limit"),
        (("--resume", ".", "--iter", "1"), "--iter is for new runs"),
        (("--preset", "half"), "there is no preset 'half'"),
        (("--rates", "absent"), "unknown rates 'absent'"),
        (("--eval-time", "0"), "--eval-time is 0; give a finite number of seconds above 0"),
        (("--start", "absent"), "policy absent cannot be read"),
        (("--resume", "."), ". is not a training run: it has no run.json"),
        (("--wandb-url", "somewhere"), "write entity/project/run"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(
    dataset: str, words: tuple[str, ...], said: str
) -> None:
    given = ("--dataset", dataset) if "--dataset" not in words and "--resume" not in words else ()
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        train(*given, *words, "--out", "run") if "--resume" not in words else train(*words)
    assert not Path("run").exists()


def test_a_folder_that_is_taken_is_refused(dataset: str) -> None:
    Path("full").mkdir()
    Path("full/thing").touch()
    with pytest.raises(UsageError, match="full exists and is not an empty folder"):
        train("--dataset", dataset, "--out", "full")
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    with pytest.raises(UsageError, match="run already contains a run; resume it with --resume run"):
        train("--dataset", dataset, "--out", "run")
    with pytest.raises(UsageError, match="run was begun with --seed 0, not 4"):
        train("--resume", "run", "--seed", "4")
    with pytest.raises(UsageError, match="leave --out out"):
        train("--resume", "run", "--out", "other")


def test_a_run_of_another_version_is_refused(dataset: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    path = Path("run/run.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"observation": 0}))
    with pytest.raises(UsageError, match="trained on observations of version 0, but this version"):
        train("--resume", "run")
    path.write_text(json.dumps(record | {"version": 9}))
    with pytest.raises(UsageError, match="run is a run of format 9"):
        train("--resume", "run")
    path.write_text(json.dumps({"some": "thing"}))
    with pytest.raises(MalformedError, match="is not the record of a training run"):
        train("--resume", "run")


def test_a_damaged_checkpoint_is_named_and_nothing_of_it_is_run(dataset: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    (path,) = Path("run/checkpoints").iterdir()
    path.write_bytes(b"cos\nsystem\n(S'touch pwned'\ntR.")
    with pytest.raises(Exception, match=f"cannot resume from the checkpoint {path}"):
        train("--resume", "run", "--total-steps", "40")
    assert not Path("pwned").exists()


@pytest.mark.parametrize(("name", "value"), [("preset", "full"), ("trainer", "dqn")])
def test_a_checkpoint_of_another_run_is_named(dataset: str, name: str, value: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    path = Path("run/run.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {"options": record["options"] | {name: value}}))
    with pytest.raises(SkipjackError, match=f"it is not of trainer .*{value}.*; delete it"):
        train("--resume", "run", "--total-steps", "40")


def test_a_run_without_some_of_its_files_goes_on_or_says_what_it_lacks(dataset: str) -> None:
    words = ("--dataset", dataset, *SMALL)
    train(*words, "--total-steps", "20", "--out", "run")
    shutil.rmtree("run/checkpoints")
    train("--resume", "run", "--total-steps", "40")
    train(*words, "--total-steps", "40", "--out", "whole")
    assert same(learned("run"), learned("whole"))
    Path("run/dataset.json").unlink()
    with pytest.raises(UsageError, match=r"run is not a complete training run: it has no dataset"):
        train("--resume", "run", "--total-steps", "60")


def test_a_second_ctrl_c_says_how_to_go_on(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(OwnLearner, "iterate", pressed)
    with pytest.raises(InterruptedRunError, match="skipjack loops train --resume run"):
        train("--dataset", dataset, *SMALL, "--out", "run")


def test_curves_that_are_none_are_named(dataset: str) -> None:
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    path = Path("run/curves.csv")
    path.write_text(path.read_text().replace("1,20,", "1,twenty,"))
    with pytest.raises(MalformedError, match=r"run/curves.csv: line 2 is not a line of curves"):
        train("--resume", "run", "--total-steps", "40")
    path.write_text("some\nthing\n")
    with pytest.raises(MalformedError, match="has other columns than this run"):
        train("--resume", "run", "--total-steps", "40")


def test_two_processes_do_not_train_in_one_folder(dataset: str) -> None:
    from skipjack.storage import FileLock

    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--out", "run")
    with (
        FileLock(Path("run/run.lock")),
        pytest.raises(UsageError, match="another process is training in run"),
    ):
        train("--resume", "run")
    assert RunFolder.open(Path("run")).options.total_steps == 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--address", "auto"), "--address is for --engine ray"),
        (("-N", "2", "--until-done"), "--nodes, --until-done: only for --engine slurm"),
        (("--engine", "ray", "--trainer", "sb3"), "sb3 trains on one machine"),
        (("--workers", "2", "--rates", "live"), "measured only by one process on this machine"),
    ],
)
def test_who_plays_is_checked(dataset: str, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        train("--dataset", dataset, *words)
    assert not Path("runs").exists()


def test_weights_and_biases_must_be_there_before_anything_is_made(
    dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="pip install wandb"):
        train("--dataset", dataset, "--wandb", "--out", "run")
    assert not Path("run").exists()


def test_the_script_for_slurm_is_shown_and_nothing_is_made(dataset: str) -> None:
    words = ("--engine", "slurm", "-N", "4", "--time", "2:00:00", "-nc=8", "--dry-run")
    script = train("--dataset", dataset, *words, "--out", "my run")
    place = Path("my run").absolute()
    assert "#SBATCH --nodes=4" in script
    assert f"loops train --resume '{place}' --engine ray --workers 8)" in script
    assert not place.exists()


def test_processes_train_as_one_does(dataset: str) -> None:
    words = ("--dataset", dataset, "--episodes", "20", "--episode-steps", "3", "--eval-size", "0")
    train(*words, "--total-steps", "60", "--out", "one")
    train(*words, "--total-steps", "60", "--out", "two", "--workers", "2")
    assert same(learned("one"), learned("two"))
    assert rows("one/steps.csv") == rows("two/steps.csv")


def test_a_table_is_replayed_and_must_know_the_problems_if_nothing_is_estimated(
    dataset: str,
) -> None:
    keys = read_dataset(dataset).train
    loops("measure", keys[0], "--schedules", "5", "-o", "table.jsonl")
    with pytest.raises(UsageError, match="lacks times of 6 of the 7 problems for training"):
        train("--dataset", dataset, "--rates", "exactly:table.jsonl", "--out", "run")
    train("--dataset", dataset, *SMALL, "--total-steps", "20", "--rates", "table.jsonl", "-o", "r")
    record = json.loads(Path("r/run.json").read_text())
    assert record["trained_on"] == "replayed from a table, and estimated where it has none"
    assert record["options"]["rates"] == str(Path("table.jsonl").absolute())


def test_no_worker_at_all_is_refused_in_our_words() -> None:
    words = command(["loops", "train", "--dataset", "few", "--workers", "0"])
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode != 0
    assert "'--workers' / '-nc': give 1 or more; " in done.stderr


def test_a_dataset_without_training_problems_is_refused() -> None:
    dims = ("--dim-a", "16,16", "--dim-b", "16,16")
    loops("dataset", "--kind", "mm", *dims, "-o", "one")
    with pytest.raises(UsageError, match="no problems for training; add problems, or"):
        train("--dataset", "one", *SMALL)


def test_times_to_be_judged_on_are_looked_for_before_training(dataset: str) -> None:
    loops("measure", "matmul:8x8x8", "--schedules", "2", "-o", "t.jsonl")
    words = ("--episodes", "4", "--episode-steps", "5", "--total-steps", "20", "--out", "run")
    message = r"have no times of matmul:.*; measure them with skipjack loops measure"
    with pytest.raises(UsageError, match=message):
        train("--dataset", dataset, *words, "--eval-rates", "exactly:t.jsonl")
    with pytest.raises(UsageError, match=message):
        loops("evaluate", "matmul:16x16x16", "--rates", "exactly:t.jsonl", "--budget", "2")
