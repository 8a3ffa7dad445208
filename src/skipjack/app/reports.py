"""``report``: finds out what a target is, and reads its records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.app.configuration import configured
from skipjack.app.views import (
    MOST_ROWS,
    BankDifference,
    ConfigSamples,
    EpisodePage,
    LabelPage,
    ProblemPage,
    ProgramPage,
    RecordTable,
    SearchPage,
    SweepPage,
    SweepRow,
    TableRequest,
    TrainingPage,
    Workspace,
    WorkspacePlaces,
    bank_difference,
    config_samples,
    episode_page,
    job_table,
    label_page,
    problem_page,
    program_page_of,
    search_page,
    sweep_page,
    sweep_table,
    sweep_view,
    training_page,
)
from skipjack.errors import MalformedError, SkipjackError, StorageError, UsageError
from skipjack.fleet.store import JobSummary
from skipjack.reading import Field, parse_json, read_json, read_plain
from skipjack.settings import Settings
from skipjack.sweep.results import from_json

_MOST_SEARCHES = 6
_FILE_SUFFIXES = (".json", ".jsonl", ".csv", ".html")
_MOST_EPISODES = 50
_RUN_FILE, _SWEEP_FILE = "run.json", "result.json"
_STEP, _STEPS = "torch_picture", "torch_steps"
_HINT = (
    "give a problem key, a tune_result_*.json, a folder or result.json of a sweep, a folder of a "
    "training run, two banks, or -l LABEL"
)


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report is about: a label, or one or two targets."""

    targets: tuple[str, ...] = ()
    """A problem key, a file or a folder; or two banks, each a file, a folder or a name."""
    label: str | None = None

    def __post_init__(self) -> None:
        if self.label is not None and self.targets:
            raise UsageError("a report is about a label or about a target; give one of them")
        if self.label is None and not self.targets:
            raise UsageError(f"a report needs to know what it is about: {_HINT}")
        if len(self.targets) > 2:
            raise UsageError("a report is about one target, or about two banks")


@dataclass(frozen=True, slots=True)
class ReportedLabel:
    """A label with its jobs."""

    page: LabelPage
    jobs: RecordTable[JobSummary]


@dataclass(frozen=True, slots=True)
class ReportedProblem:
    """A problem with its newest searches, and the samples of its fastest configs."""

    page: ProblemPage
    searches: Sequence[SearchPage]
    samples: Sequence[ConfigSamples]


@dataclass(frozen=True, slots=True)
class StepOperation:
    """An operation of a step of training."""

    op: str
    by: str
    """What runs it in the tuned step: ``skipjack``, ``hooked`` (PyTorch) or ``other``."""
    plain_us: float
    tuned_us: float


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step of training, operation by operation, on plain PyTorch and tuned."""

    model: str
    batch: int
    threads: int
    device: str
    plain_ms: float
    tuned_ms: float
    ratio: float
    low: float
    high: float
    operations: Sequence[StepOperation]


@dataclass(frozen=True, slots=True)
class StepCase:
    """Whole steps of a network, on plain PyTorch and tuned."""

    name: str
    plain_ms: float
    tuned_ms: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class StepCases:
    """Steps of several networks."""

    device: str
    date: str
    cases: Sequence[StepCase]


@dataclass(frozen=True, slots=True)
class ReportedTraining:
    """A training run, and its last episode step by step."""

    page: TrainingPage
    episode: EpisodePage | None


ReportRecords = (
    ReportedLabel
    | ReportedProblem
    | BankDifference
    | ProgramPage
    | SweepPage
    | MeasuredStep
    | StepCases
    | ReportedTraining
)


def read_report(request: ReportRequest, settings: Settings | None = None) -> ReportRecords:
    """The records that the report is about; `UsageError` if they cannot be found."""
    with Workspace(configured(settings)) as workspace:
        if request.label is not None:
            return _label(workspace, request.label)
        if len(request.targets) == 2:
            first, second = (_bank(workspace, text) for text in request.targets)
            return bank_difference(first, second, TableRequest(size=MOST_ROWS))
        (text,) = request.targets
        path = Path(text)
        if path.is_dir():
            return _folder(path)
        if path.exists() or path.suffix in _FILE_SUFFIXES or ("/" in text and ":" not in text):
            return _file(path)
        return _problem_or_sweep(workspace, text)


def _label(workspace: Workspace, name: str) -> ReportedLabel:
    request = TableRequest("gain", True, {"label": name}, size=MOST_ROWS)
    return ReportedLabel(label_page(workspace, name), job_table(workspace, request))


def _bank(workspace: Workspace, text: str) -> Path:
    path = Path(text)
    if path.exists():
        return path
    known = {layer.name: layer.path for layer in workspace.layers}
    if text in known:
        return known[text]
    raise UsageError(f"there is no bank {text!r}: give a file, a folder, or {' or '.join(known)}")


def _problem_or_sweep(workspace: Workspace, text: str) -> ReportedProblem | SweepPage:
    from skipjack.operations import parse

    if (sweep := _sweep_key(workspace, text)) is not None:
        return sweep_page(workspace, sweep)
    try:
        key = parse(text).key
    except SkipjackError as error:
        raise UsageError(
            f"{text!r} is neither a file nor a folder nor a problem ({error}); {_HINT}"
        ) from None
    page = problem_page(workspace, key)
    with_trials = [one for one in page.searches if one.trials][:_MOST_SEARCHES]
    searches = [search_page(workspace, key, one.id) for one in with_trials]
    return ReportedProblem(page, searches, config_samples(workspace, key))


def _sweep_key(workspace: Workspace, text: str) -> str | None:
    """The key of the ledger's last sweep of this name or workload; None if there is none."""
    if not workspace.has_ledger:
        return None
    rows = sweep_table(workspace, TableRequest(size=MOST_ROWS)).rows
    return next((one.key for one in rows if text in (one.key, one.name)), None)


def _folder(path: Path) -> ReportRecords:
    if (path / _RUN_FILE).is_file():
        return _training(path)
    if (path / _SWEEP_FILE).is_file():
        return _file(path / _SWEEP_FILE)
    raise UsageError(
        f"{path} is neither a training run (it has no {_RUN_FILE}) nor the report of a sweep "
        f"(it has no {_SWEEP_FILE}); {_HINT}"
    )


def _training(path: Path) -> ReportedTraining:
    folder = path.resolve()
    with Workspace(places=WorkspacePlaces(runs=(folder,))) as workspace:
        page = training_page(workspace, folder.name, TableRequest(size=_MOST_EPISODES))
        episode = None
        if page.episodes.rows:
            last = page.episodes.rows[0]
            episode = episode_page(workspace, folder.name, last.iteration, last.episode)
    return ReportedTraining(page, episode)


def _sweep_file(path: Path, record: dict[str, Any]) -> SweepPage:
    result = from_json(record, str(path))
    failed = sum(trial.status.failed for trial in result.trials)
    points = len({trial.point.key for trial in result.trials})
    last = path.stat().st_mtime
    row = SweepRow(str(path), result.name, "report", points, len(result.trials), failed, last)
    return sweep_view(row, result)


def _file(path: Path) -> ReportRecords:
    try:
        data = read_plain(path)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        record = parse_json(data)
    except MalformedError as error:
        raise StorageError(f"{path} is not JSON: {error}") from None
    if not isinstance(record, dict):
        raise StorageError(f"{path} has no report in it; {_HINT}")
    if record.get("kind") == "sweep":
        return _sweep_file(path, record)
    if "end_to_end" in record or "program" in record:
        return program_page_of(path, TableRequest(size=MOST_ROWS))
    if record.get("name") == _STEP:
        return _step(read_json(data, str(path)))
    if record.get("name") == _STEPS:
        return _steps(read_json(data, str(path)))
    raise StorageError(f"{path} has nothing that a report shows; {_HINT}")


def _step(field: Field) -> MeasuredStep:
    gain, times = field["speedup"], field["ms"]
    return MeasuredStep(
        model=field["model"].text(),
        batch=field["batch"].integer(),
        threads=field["threads"].integer(),
        device=field["device"]["name"].text(),
        plain_ms=times["plain"].number(),
        tuned_ms=times["tuned"].number(),
        ratio=gain["ratio"].number(),
        low=gain["low"].number(),
        high=gain["high"].number(),
        operations=[
            StepOperation(
                one["op"].text(),
                one["by"].text(),
                one["us"]["plain"].number(),
                one["us"]["tuned"].number(),
            )
            for one in field["operations"].elements()
        ],
    )


def _steps(field: Field) -> StepCases:
    cases = [
        StepCase(
            one["case"].text(),
            one["ms"]["plain"].number(),
            one["ms"]["hook"].number(),
            *(one["speedup"][name].number() for name in ("ratio", "low", "high")),
        )
        for one in field["cases"].elements()
    ]
    return StepCases(field["device"]["name"].text(), field["date"].text(), cases)
