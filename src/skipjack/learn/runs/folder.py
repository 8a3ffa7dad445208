"""The folder of a training run: its options, curves, steps, checkpoints and policy.

================  ==============================================================================
``run.json``      options, device, and details of each start or resumption
``dataset.json``  the problems for training and evaluation
``curves.csv``    a line for each iteration
``steps.csv``     a line for each action
``checkpoints/``  the states from which the run can be resumed
``policy.npz``    the policy, which plays without torch
``evaluation/``   a comparison of the policy with searches, after the run
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

from skipjack.core import Device
from skipjack.errors import MalformedError, StorageError, UsageError
from skipjack.learn.loops import POLICY_OBSERVATION, LoopDataset, dataset_text, read_dataset
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
    """An episode of training for ``steps.csv``. Sequences have an element for each action."""

    problem: str
    actions: tuple[str, ...]
    rewards: Sequence[float]
    seconds: Sequence[float | None]
    """Times of the schedules after each action; None if not known or if it cannot be built."""
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
    """``done``, ``interrupted``, ``failed``, or ``running`` (also after a power failure)."""
    schedules: Mapping[str, int] | None = None
    """Distinct schedules requested in each process, by the source of their times."""


class RunFolder:
    """A run on disk. Only one process may write to it, which must hold the run's lock."""

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

    # creating and opening

    @classmethod
    def create(
        cls, path: Path, options: TrainOptions, dataset: LoopDataset, device: Device
    ) -> RunFolder:
        """Create a run; `UsageError` if the folder is not empty."""
        if (path / RECORD).exists():
            raise UsageError(
                f"{path} already contains a run; resume it with --resume {path}, or choose "
                "another --out"
            )
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise UsageError(f"{path} exists and is not an empty folder; choose another --out")
        try:
            (path / CHECKPOINTS).mkdir(parents=True)
        except OSError as error:
            raise StorageError(f"cannot create the folder {path}: {error.strerror}") from None
        atomic_write(path / DATASET, dataset_text(dataset).encode())
        folder = cls(path, options, device)
        folder.write_record()
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open the run in a folder; `UsageError` if there is none, or one of another version."""
        record = path / RECORD
        if not record.is_file():
            raise UsageError(f"{path} is not a training run: it has no {RECORD}")
        try:
            read = read_json(read_plain(record), str(record))
        except OSError as error:
            raise StorageError(f"cannot read {record}: {error.strerror}") from None
        kind = read.get("format")
        if kind is None or kind.text() != FORMAT:
            raise MalformedError(f"{record} is not the record of a training run")
        if read["version"].integer() != VERSION:
            raise UsageError(
                f"{path} is a run of format {read['version'].integer()}, but this version of "
                f"Skipjack reads format {VERSION}"
            )
        if (seen := read["observation"].integer()) != POLICY_OBSERVATION:
            raise UsageError(
                f"{path} was trained on observations of version {seen}, but this version of "
                f"Skipjack uses version {POLICY_OBSERVATION}; train it again"
            )
        return cls(
            path,
            read["options"].of(TrainOptions),
            read["device"].of(Device),
            [each.of(TrainingSession) for each in read["sessions"].elements()],
        )

    def dataset(self) -> LoopDataset:
        """The dataset as it was when the run began."""
        if not (self.path / DATASET).is_file():
            raise UsageError(f"{self.path} is not a complete training run: it has no {DATASET}")
        return read_dataset(str(self.path / DATASET))

    @property
    def evaluation(self) -> Path:
        """The folder of the evaluation."""
        return self.path / EVALUATION

    @property
    def start(self) -> Path:
        """The initial policy, if the run does not begin with random weights."""
        return self.path / START

    # the record

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
        """Update the present session in the record."""
        self.sessions[-1] = replace(self.sessions[-1], **fields)
        self.write_record()

    # curves and steps

    def add(
        self, curves: Mapping[str, float], episodes: Sequence[PlayedEpisode], iteration: int
    ) -> None:
        """Add a line to the curves, and a line for each action to the steps."""
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
        """The lines of ``curves.csv``; `MalformedError` if a value is not a number."""
        path = self.path / CURVES
        rows = _rows(path)
        for number, row in enumerate(rows, 2):
            if "seconds" not in row or not all(map(_is_number, row.values())):
                raise MalformedError(f"{path}: line {number} is not a line of curves")
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
            raise MalformedError(f"{path} has other columns than this run; remove it to continue")
        return head

    def cut(self, iteration: int) -> None:
        """Remove lines after an iteration, for which no checkpoint was saved."""
        for name in (CURVES, STEPS):
            path = self.path / name
            if not path.exists():
                continue
            with path.open(newline="", encoding="utf-8") as old:
                head, *rows = list(csv.reader(old)) or [[]]
            # The last line may be incomplete.
            whole = [row for row in rows if len(row) == len(head) and row[0].isdecimal()]
            kept = [row for row in whole if int(row[0]) <= iteration]
            if len(kept) < len(rows):
                with atomic_replacement(path) as temporary:
                    temporary.write_text(_text([head, *kept]), encoding="utf-8")

    # checkpoints and the policy

    def checkpoint(self, iteration: int, suffix: str) -> Path:
        """The path of a new checkpoint; call `keep` after writing it."""
        (self.path / CHECKPOINTS).mkdir(exist_ok=True)
        return self.path / CHECKPOINTS / f"{iteration:06d}{suffix}"

    def last_checkpoint(self) -> tuple[int, Path] | None:
        """The iteration and the path of the newest checkpoint."""
        return max(self._checkpoints(), default=None)

    def keep(self, arrays: Mapping[str, NDArray[np.float32]]) -> None:
        """Write the policy, and remove all but the newest checkpoints."""
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
        """Remove the evaluation, because the policy is trained further."""
        shutil.rmtree(self.evaluation, ignore_errors=True)


def versions() -> dict[str, str]:
    """Versions of installed packages that a run depends on."""
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
