"""``skipjack loops evaluate`` and ``compare`` as run by users."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from skipjack.cli.main import app
from skipjack.errors import UsageError
from skipjack.learn.loops import GLOBAL_COLUMNS, ROW_COLUMNS, Preset
from skipjack.learn.policy import find_policy, write_policy
from skipjack.settings import load_settings
from skipjack.solvers.vendor.tvm import find_python
from skipjack.testing.samples import random_weights


@pytest.fixture(autouse=True)
def own_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.chdir(tmp_path)


def run_folder(preset: Preset) -> str:
    """The folder of a training run that has learned nothing."""
    Path("run").mkdir()
    sizes = len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(preset.actions)
    write_policy(Path("run/policy.npz"), random_weights(*sizes), preset)
    return "run"


def loops(*words: str) -> str:
    done = CliRunner().invoke(app, ["loops", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_policy_is_evaluated_beside_every_search() -> None:
    run = run_folder(Preset.LOOPTUNE)
    words = ("matmul:24x16x32", "--policy", run, "--budget", "4", "--rates", "model")
    said = loops("evaluate", *words)
    assert "Saved at: run/evaluation" in said
    with Path("run/evaluation/steps.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {"policy", "mcts-policy", "beam-4-lookahead-2", "random"} <= {r["search"] for r in rows}
    assert max(int(row["measured"]) for row in rows) == 4


def test_a_run_is_evaluated_by_looptunes_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    run = run_folder(Preset.LOOPTUNE)
    dims = ("--dim-a", "16:32:16,16", "--dim-b", "16,16:32:16")
    loops("dataset", "--kind", "mm", *dims, "--train-share", "0", "-o", "run/dataset.json")
    words = ("--trainer=dqn.ApexTrainer", f"--wandb_url={run}", "--size=3", "--debug")
    said = loops("evaluate", *words, "--budget", "2", "--rates", "model")
    assert "--trainer is not needed: the policy's file names its trainer" in said
    assert Path("graph.dot").read_text().count("matmul:") >= 3
    with Path("run/evaluation/steps.csv").open() as file:
        problems = {row["problem"] for row in csv.DictReader(file)}
    assert len(problems) == 3
    assert problems < {f"matmul:{m}x{n}x16:f32" for m in (16, 32) for n in (16, 32)}


def test_a_policy_is_fetched_from_weights_and_biases(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_folder(Preset.LOOPTUNE)
    words = ("matmul:16x16x16", "--budget", "2", "--rates", "model", "--wandb_url")
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UsageError, match="install its package: pip install wandb"):
        loops("evaluate", *words, "me/project/abc")
    asked = []

    class File:
        def download(self, root: str, replace: bool) -> None:
            shutil.copy(f"{run}/policy.npz", root)

    class Api:
        def run(self, path: str) -> Api:
            asked.append(path)
            return self

        def file(self, name: str) -> File:
            asked.append(name)
            return File()

    wandb = ModuleType("wandb")
    wandb.__spec__ = ModuleSpec("wandb", None)
    wandb.Api = Api
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    assert "Saved at: evaluation" in loops(
        "evaluate", *words, "https://wandb.ai/me/project/runs/abc"
    )
    assert asked == ["me/project/abc", "policy.npz"]


def test_a_policy_is_compared_with_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.solvers.vendor.tvm.find_python", lambda named: None)
    run = run_folder(Preset.FULL)
    words = ("matmul:24x16x32", "--policy", run, "--against", "numpy,tvm")
    record = json.loads(loops("compare", *words, "--csv", "out.csv", "--json"))
    assert record["problem"] == "matmul:24x16x32:f32"
    assert record["time_ns"].keys() == {"policy", "first proposal", "untuned", "numpy"}
    assert "pip install 'skipjack[tvm]', or name" in record["missing"]["tvm"]
    said = loops("compare", *(word.replace("--policy", "--wandb_url") for word in words))
    assert "policy over numpy:" in said
    assert "without tvm:" in said
    with Path("out.csv").open() as file:
        assert [row["problem"] for row in csv.DictReader(file)] == ["matmul:24x16x32:f32"]


def test_tvm_has_a_python_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fails costs the others nothing, and is told why."""
    run = run_folder(Preset.FULL)
    python = Path("python").absolute()
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && exit 0\necho no room for TVM >&2\nexit 7\n')
    python.chmod(0o755)
    words = ("compare", "matmul:24x16x32", "--policy", run, "--against", "numpy,tvm", "--json")
    record = json.loads(loops(*words, "--tvm-python", str(python)).splitlines()[-1])
    assert "numpy" in record["time_ns"]
    why = "TVM's process ended with exit code 7: no room for TVM"
    assert record["missing"] == {"tvm": why}
    monkeypatch.setenv("SKIPJACK_TVM_PYTHON", "absent")
    with pytest.raises(UsageError, match="absent is not a Python with TVM"):
        loops(*words)


@pytest.mark.long
def test_a_policy_is_compared_with_the_real_tvm() -> None:
    if find_python(load_settings().tvm_python) is None:
        pytest.skip("TVM is not installed; make tvm does so")
    words = ("matmul:24x16x32", "--policy", run_folder(Preset.FULL), "--against", "tvm,numpy")
    record = json.loads(loops("compare", *words, "--tvm-trials", "2", "--json").splitlines()[-1])
    assert not record["missing"]
    assert record["time_ns"]["tvm"] > 0
    assert record["notes"]["tvm"].endswith("was given 2 trials")


def test_what_cannot_be_compared_is_refused_by_name() -> None:
    run = run_folder(Preset.FULL)
    with pytest.raises(
        UsageError, match="unknown library 'cudnn'; choose from numpy, cblas, mkl, tvm"
    ):
        loops("compare", "--policy", run, "--against", "cudnn")
    with pytest.raises(UsageError, match="policy absent cannot be read"):
        loops("compare", "--policy", "absent")
    with pytest.raises(UsageError, match="--policy is empty; name the folder of a training run"):
        loops("evaluate", "--wandb_url=")
    with pytest.raises(UsageError, match="plays the preset full, not looptune"):
        find_policy(run, Preset.LOOPTUNE)
