"""Curves in TensorBoard where it is installed, and in Weights & Biases where it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.policy import RUN_FILE
from skipjack.learn.runs.folder import RunFolder
from skipjack.learn.runs.running import CurveSink

TENSORBOARD = "tensorboard"
PROJECT = "skipjack-loops"


def open_sinks(folder: RunFolder, *, wandb: bool = False, wandb_run: str = "") -> list[CurveSink]:
    """Where the curves of a run are reported."""
    sinks: list[CurveSink] = []
    if find_spec("tensorboard") is not None:
        sinks.append(TensorBoardSink(folder.path / TENSORBOARD))
    if wandb or wandb_run:
        sinks.append(WandbSink(folder, wandb_run))
    return sinks


class TensorBoardSink:
    """Writes event files."""

    def __init__(self, path: Path) -> None:
        # Not by `import`: it is there only where TensorBoard is.
        module: Any = importlib.import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(log_dir=str(path))

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """A point of each curve."""
        for name, value in curves.items():
            if name not in ("iteration", "steps"):
                self._writer.add_scalar(f"train/{name}", value, step)
        self._writer.flush()

    def close(self, run: Path) -> None:
        """End the file."""
        self._writer.close()


class WandbSink:
    """Reports to Weights & Biases, and uploads the policy at the end."""

    def __init__(self, folder: RunFolder, run: str = "") -> None:
        """`run` is ``entity/project/id`` of one that goes on; empty for a new one."""
        module = _wandb()
        named: dict[str, Any] = {"project": PROJECT, "name": folder.path.name}
        if run:
            entity, project, number = wandb_path(run)
            named = {"entity": entity, "project": project, "id": number, "resume": "allow"}
        try:
            self._run = module.init(**named, config=asdict(folder.options), dir=str(folder.path))
        except Exception as error:  # the package has many kinds: no key, no network, no such run
            raise SkipjackError(
                f"Weights & Biases does not take the run: {error}; log in with `wandb login`"
            ) from None

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """A point of each curve."""
        self._run.log({f"train/{name}": value for name, value in curves.items()}, step=step)

    def close(self, run: Path) -> None:
        """Upload the policy."""
        self._run.save(str(run / RUN_FILE), base_path=str(run), policy="now")
        self._run.finish()


def fetch_policy(run: str, into: Path) -> Path:
    """The policy that a run of Weights & Biases ended with."""
    path, module = "/".join(wandb_path(run)), _wandb()
    try:
        module.Api().run(path).file(RUN_FILE).download(root=str(into), replace=True)
    except Exception as error:  # as above
        raise SkipjackError(f"{run} of Weights & Biases has no {RUN_FILE}: {error}") from None
    return into / RUN_FILE


def wandb_path(run: str) -> tuple[str, str, str]:
    """Entity, project and id of a run; `UsageError` if the text does not have all three."""
    parts = run.removeprefix("https://wandb.ai/").replace("/runs/", "/").strip("/").split("/")
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"--wandb-url is {run!r}; write it as entity/project/run")
    return parts[0], parts[1], parts[2]


def check_wandb() -> None:
    """`UsageError` if the package is not there."""
    if find_spec("wandb") is None:
        raise UsageError(
            "Weights & Biases needs its package: pip install wandb; a run's folder has its curves "
            "and its policy without it"
        )


def _wandb() -> Any:
    check_wandb()
    return importlib.import_module("wandb")
