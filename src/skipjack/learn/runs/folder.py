"""The folder of a training run: what was asked for, curves, steps, checkpoints and the policy.

================  ==============================================================================
``run.json``      options, device, and for every start or resumption what it ran with
``dataset.json``  the problems that are trained on and judged on
``curves.csv``    a line for each iteration
``steps.csv``     a line for each action
``checkpoints/``  what going on needs
``policy.npz``    the policy, which plays without torch
``evaluation/``   the policy beside searches, when the run is done
================  ==============================================================================
"""

from __future__ import annotations

import csv
import io
import json
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipjack.core.device import Device
from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.learn.loops import (
    POLICY_OBSERVATION,
    LoopDataset,
    dataset_text,
    read_dataset,
)
from skipjack.learn.policy import RUN_FILE, write_policy
from skipjack.learn.runs.options import TrainOptions, what_rates_are
from skipjack.reading import read_json, read_plain
from skipjack.storage import atomic_replacement, atomic_write

FORMAT, VERSION = "skipjack-training-run", 1
RECORD, DATASET, CURVES, STEPS = "run.json", "dataset.json", "curves.csv", "steps.csv"
CHECKPOINTS, START, EVALUATION = "checkpoints", "start.npz", "evaluation"
CHECKPOINTS_KEPT = 2
STEP_COLUMNS = (
    *("iteration", "episode", "problem", "step", "action", "reward", "seconds", "speed_up"),
    "schedule",
)
_CHECKPOINT = re.compile(r"(\d{6,9})\.(?:pt|zip)", re.ASCII)
_PACKAGES = ("numpy", "torch", "gymnasium", "stable-baselines3", "sb3-contrib", "ray")


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """An episode of training, as ``steps.csv`` has it. Sequences have an element per action."""

    problem: str
    actions: tuple[str, ...]
    rewards: Sequence[float]
    seconds: Sequence[float | None]
    """Of the schedule after each action; None where it was not asked for or cannot be built."""
    schedule: str
    speed_up: float


@dataclass(frozen=True, slots=True)
class TrainingSession:
    """One start or resumption of a run."""

    began: str
    engine: str
    workers: int | None
    versions: Mapping[str, str]
    from_step: int
    to_step: int
    seconds: float = 0.0
    ended: str = "running"
    """``done``, ``interrupted``, ``failed``, or ``running``, also after a power cut."""
    schedules: Mapping[str, int] | None = None
    """Distinct schedules that it asked for, by what their times are from; in each process."""


class RunFolder:
    """A run on disk. Only one process may write to it: hold `lock`."""

    def __init__(
        self,
        path: Path,
        options: TrainOptions,
        device: Device,
        sessions: Sequence[TrainingSession] = (),
    ) -> None:
        self.path, self.options, self.device = path, options, device
        self.sessions = list(sessions)
        self._columns: list[str] = []

    # Begin and find

    @classmethod
    def create(
        cls, path: Path, options: TrainOptions, dataset: LoopDataset, device: Device
    ) -> RunFolder:
        """A new run; `UsageError` if the folder has something in it."""
        if (path / RECORD).exists():
            raise UsageError(
                f"{path} holds a run already; go on with --resume {path}, or choose another --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} is there and not an empty folder; choose another --out")
        try:
            (path / CHECKPOINTS).mkdir(parents=True)
        except OSError as error:
            raise StorageError(f"cannot make the folder {path}: {error.strerror}") from None
        atomic_write(path / DATASET, dataset_text(dataset).encode())
        folder = cls(path, options, device)
        folder.write_record()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run in a folder; `UsageError` if there is none, or one of another version."""
        record = path / RECORD
        if not record.is_file():
            raise UsageError(f"{path} is not a training run: it has no {RECORD}")
        try:
            read = read_json(read_plain(record), str(record))
        except OSError as error:
            raise StorageError(f"cannot read {record}: {error.strerror}") from None
        kind = read.get("format")
        if kind is None or kind.text() != FORMAT:
            raise MalformedError(f"{record} is not of a training run")
        if read["version"].integer() != VERSION:
            raise UsageError(
                f"{path} is a run of format {read['version'].integer()}, this version of Skipjack "
                f"reads format {VERSION}"
            )
        if (seen := read["observation"].integer()) != POLICY_OBSERVATION:
            raise UsageError(
                f"{path} was trained on observations of version {seen}, this version of Skipjack "
                f"has version {POLICY_OBSERVATION}; train it again"
            )
        return cls(
            path,
            read["options"].of(TrainOptions),
            read["device"].of(Device),
            [each.of(TrainingSession) for each in read["sessions"].elements()],
        )

    def dataset(self) -> LoopDataset:
        """The problems, as they were when the run began."""
        if not (self.path / DATASET).is_file():
            raise UsageError(f"{self.path} is not a whole training run: it has no {DATASET}")
        return read_dataset(str(self.path / DATASET))

    @property
    def evaluation(self) -> Path:
        """Where the policy is judged."""
        return self.path / EVALUATION

    @property
    def start(self) -> Path:
        """The policy that the network is at first, if it is not random."""
        return self.path / START

    # What was asked for, and what ran

    def write_record(self) -> None:
        """Write ``run.json``."""
        record = {
            "format": FORMAT,
            "version": VERSION,
            "observation": POLICY_OBSERVATION,
            "options": asdict(self.options),
            "device": asdict(self.device),
            "trained_on": what_rates_are(self.options.rates),
            "judged_on": what_rates_are(self.options.eval_rates),
            "sessions": [asdict(each) for each in self.sessions],
        }
        atomic_write(self.path / RECORD, json.dumps(record, indent=1).encode() + b"\n")

    def change_session(self, **fields: Any) -> None:
        """Note more of the session that runs."""
        self.sessions[-1] = replace(self.sessions[-1], **fields)
        self.write_record()

    # Curves and steps

    def add(
        self, curves: Mapping[str, float], episodes: Sequence[PlayedEpisode], iteration: int
    ) -> None:
        """A line of curves, and one for each action."""
        if not self._columns:
            self._columns = self._begin_curves(list(curves))
        _append(self.path / CURVES, [[_cell(curves[name]) for name in self._columns]])
        _append(
            self.path / STEPS,
            [
                [iteration, number, each.problem, *line]
                for number, each in enumerate(episodes)
                for line in _lines(each)
            ],
        )

    def curves(self) -> list[dict[str, str]]:
        """The lines of ``curves.csv``; `MalformedError` if there is anything but numbers in it."""
        path = self.path / CURVES
        rows = _rows(path)
        for number, row in enumerate(rows, 2):
            if "seconds" not in row or not all(map(_is_number, row.values())):
                raise MalformedError(f"{path}: line {number} is not of a run's curves")
        return rows

    def _begin_curves(self, columns: list[str]) -> list[str]:
        path = self.path / CURVES
        if not path.exists():
            _append(path, [columns])
            _append(self.path / STEPS, [list(STEP_COLUMNS)])
            return columns
        with path.open(newline="", encoding="utf-8") as file:
            head = next(csv.reader(file), [])
        if set(head) != set(columns):
            raise MalformedError(f"{path} has other columns than this run; remove it to go on")
        return head

    def cut(self, iteration: int) -> None:
        """Take off what was written after an iteration: the process was ended before it saved."""
        for name in (CURVES, STEPS):
            path = self.path / name
            if not path.exists():
                continue
            with path.open(newline="", encoding="utf-8") as old:
                head, *rows = list(csv.reader(old)) or [[]]
            # A line that was cut off in the middle is the last.
            whole = [row for row in rows if len(row) == len(head) and row[0].isdecimal()]
            kept = [row for row in whole if int(row[0]) <= iteration]
            if len(kept) < len(rows):
                with atomic_replacement(path) as temporary:
                    temporary.write_text(_text([head, *kept]), encoding="utf-8")

    # Checkpoints and the policy

    def checkpoint(self, iteration: int, suffix: str) -> Path:
        """The name of a new checkpoint; `keep` is called when it is written."""
        (self.path / CHECKPOINTS).mkdir(exist_ok=True)
        return self.path / CHECKPOINTS / f"{iteration:06d}{suffix}"

    def last_checkpoint(self) -> tuple[int, Path] | None:
        """The newest one and its iteration."""
        return max(self._checkpoints(), default=None)

    def keep(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Write the policy, and remove checkpoints but the newest ones."""
        with atomic_replacement(self.path / RUN_FILE) as temporary:
            write_policy(temporary, arrays, self.options.preset)
        for _, path in sorted(self._checkpoints())[:-CHECKPOINTS_KEPT]:
            path.unlink(missing_ok=True)

    def _checkpoints(self) -> list[tuple[int, Path]]:
        found = ((_CHECKPOINT.fullmatch(path.name), path) for path in self._in_checkpoints())
        return [(int(match[1]), path) for match, path in found if match]

    def _in_checkpoints(self) -> list[Path]:
        folder = self.path / CHECKPOINTS
        return list(folder.iterdir()) if folder.is_dir() else []

    def forget_evaluation(self) -> None:
        """Remove the one of a policy that has learned more since."""
        shutil.rmtree(self.evaluation, ignore_errors=True)


def versions() -> dict[str, str]:
    """Of what a run depends on, as far as it is installed."""
    found = {"skipjack": _version("skipjack"), "python": platform.python_version()}
    return found | {name: text for name in _PACKAGES if (text := _version(name))}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _lines(episode: PlayedEpisode) -> list[list[Any]]:
    last = len(episode.actions) - 1
    return [
        [
            *(step + 1, action, _cell(episode.rewards[step]), _cell(episode.seconds[step])),
            _cell(episode.speed_up) if step == last else "",
            episode.schedule if step == last else "",
        ]
        for step, action in enumerate(episode.actions)
    ]


def _is_number(text: str | None) -> bool:
    try:
        float(text or 0)
    except (TypeError, ValueError):
        return False
    return text is not None


def _cell(value: float | None) -> str:
    if value is None or value != value:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _append(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    with path.open("a", newline="", encoding="utf-8") as file:
        file.write(_text(rows))


def _text(rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
