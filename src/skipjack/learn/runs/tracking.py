"""Curves in TensorBoard, if it is installed, and in Weights & Biases, if requested."""

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
from skipjack.learn.runs.run import CurveSink

TENSORBOARD = "tensorboard"
PROJECT = "skipjack-loops"


def open_sinks(folder: RunFolder, *, wandb: bool = False, wandb_run: str = "") -> list[CurveSink]:
    """The sinks for the curves of a run."""
    sinks: list[CurveSink] = []
    if find_spec("tensorboard") is not None:
        sinks.append(TensorBoardSink(folder.path / TENSORBOARD))
    if wandb or wandb_run:
        sinks.append(WandbSink(folder, wandb_run))
    return sinks


class TensorBoardSink:
    """Writes event files of TensorBoard."""

    def __init__(self, path: Path) -> None:
        # Not by `import`: it exists only if TensorBoard is installed.
        module: Any = importlib.import_module("torch.utils.tensorboard")
        self._writer = module.SummaryWriter(log_dir=str(path))

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """A point of each curve."""
        for name, value in curves.items():
            if name not in ("iteration", "steps"):
                self._writer.add_scalar(f"train/{name}", value, step)
        self._writer.flush()

    def close(self, run: Path) -> None:
        """Close the file."""
        self._writer.close()


class WandbSink:
    """Reports to Weights & Biases, and uploads the policy at the end."""

    def __init__(self, folder: RunFolder, run: str = "") -> None:
        """`run` is ``entity/project/id`` of a run to continue; empty for a new one."""
        module = _wandb()
        named: dict[str, Any] = {"project": PROJECT, "name": folder.path.name}
        if run:
            entity, project, number = wandb_path(run)
            named = {"entity": entity, "project": project, "id": number, "resume": "allow"}
        try:
            self._run = module.init(**named, config=asdict(folder.options), dir=str(folder.path))
        except Exception as error:  # many types: no key, no network, no such run
            raise SkipjackError(
                f"Weights & Biases does not accept the run: {error}; log in with `wandb login`"
            ) from None

    def add(self, step: int, curves: Mapping[str, float]) -> None:
        """A point of each curve."""
        self._run.log({f"train/{name}": value for name, value in curves.items()}, step=step)

    def close(self, run: Path) -> None:
        """Upload the policy and finish."""
        self._run.save(str(run / RUN_FILE), base_path=str(run), policy="now")
        self._run.finish()


def fetch_policy(run: str, into: Path) -> Path:
    """Download the final policy of a run of Weights & Biases."""
    path, module = "/".join(wandb_path(run)), _wandb()
    try:
        module.Api().run(path).file(RUN_FILE).download(root=str(into), replace=True)
    except Exception as error:  # as above
        raise SkipjackError(
            f"cannot get {RUN_FILE} of the run {run} from Weights & Biases: {error}"
        ) from None
    return into / RUN_FILE


def wandb_path(run: str) -> tuple[str, str, str]:
    """Entity, project and ID of a run."""
    parts = run.removeprefix("https://wandb.ai/").replace("/runs/", "/").strip("/").split("/")
    if len(parts) != 3 or not all(parts):
        raise UsageError(f"--wandb-url is {run!r}; write entity/project/run")
    return parts[0], parts[1], parts[2]


def check_wandb() -> None:
    """Raise `UsageError` if the package is missing."""
    if find_spec("wandb") is None:
        raise UsageError(
            "Weights & Biases needs the package wandb; install it with pip install wandb, or leave "
            "out the option: a run's folder has its curves and its policy anyway"
        )


def _wandb() -> Any:
    check_wandb()
    return importlib.import_module("wandb")
