"""The page on training has every option, file, field and column, and no other."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

from skipjack.cli.main import app
from skipjack.learn.runs import RunFolder, TrainerName, TrainingSession, TrainOptions
from skipjack.learn.runs.folder import STEP_COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loop-training.md"
HIDDEN = {"--app", "-ng", "--help", "--eval_size", "--eval_time", "--wandb_url"}
ALIASES = {"--steps", "--rates-from", "-o", "-N", "-nc", "--iterations"}


def names_in(heading: str) -> list[str]:
    """What is in backticks in the first column of the table below a heading."""
    section = re.split(r"^#+ ", PAGE.read_text().partition(f"# {heading}\n")[2], flags=re.M)[0]
    (table,) = re.findall(r"^\|---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    cells = [row.split("|")[1] for row in table.splitlines()]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_option() -> None:
    loops = typer.main.get_command(app).commands["loops"]  # type: ignore[attr-defined]
    options = {word for one in loops.commands["train"].params for word in one.opts}
    assert set(names_in("Options")) == options - HIDDEN - ALIASES
    own = {f"--{one.name.replace('_', '-')}" for one in fields(TrainOptions)}
    assert own <= options


def test_every_trainer() -> None:
    assert names_in("Trainers") == list(TrainerName)


def test_every_field_of_run_json_and_every_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    from skipjack.learn.loops import LoopDataset
    from skipjack.learn.runs import open_learner, train
    from skipjack.native import cpu

    dataset = LoopDataset("tiny", "mm", 0, ("matmul:16x16x16:f32",), ())
    columns: set[str] = set()
    for trainer in (TrainerName.PPO, TrainerName.DQN):
        options = TrainOptions("tiny", trainer, 4, episode_steps=2, episodes=2, eval_size=0)
        folder = RunFolder.create(tmp_path / trainer, options, dataset, cpu.detect(1))
        learner = open_learner(folder)
        train(folder, learner)
        learner.close()
        columns |= folder.curves()[0].keys()
    assert set(names_in("curves.csv")) == columns
    assert names_in("steps.csv") == list(STEP_COLUMNS)
    record = (tmp_path / "ppo" / "run.json").read_text()
    documented = set(names_in("run.json"))
    top = set(re.findall(r'^ "(\w+)"', record, re.MULTILINE))
    assert documented == top | {one.name for one in fields(TrainingSession)}
    files = {path.name + "/" * path.is_dir() for path in (tmp_path / "ppo").iterdir()}
    assert files <= set(names_in("The folder of a run"))
