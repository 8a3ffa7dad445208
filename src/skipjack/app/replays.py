"""``replay``: searchers compared on recorded search spaces; and recordings as T4 files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isinf
from pathlib import Path

from skipjack.app.configuration import configured
from skipjack.core import Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.interop import TuningResults, write_t4
from skipjack.interrupt import Interrupt
from skipjack.learn.replay import (
    RandomBaseline,
    RecordedSpace,
    ReplayRun,
    ReplayTask,
    ScoredRuns,
    SearcherScore,
    load_recording,
    run_replay,
    run_replays,
    summarize_recordings,
)
from skipjack.learn.trials import is_ledger
from skipjack.operations import parse
from skipjack.search import SearchContext, check_name, create
from skipjack.settings import Settings

ReplayObserver = Callable[[int, int], None]
"""Called with the number of runs that are done, and of all."""


@dataclass(frozen=True, slots=True)
class LedgerChoice:
    """Which recorded space of a ledger is meant; what is not needed to choose may be None."""

    problem: str | None = None
    """A key; what it leaves out has its default, as in ``matmul:64x64x64``."""
    solver: str | None = None
    device: str | None = None

    @property
    def key(self) -> str | None:
        """The key in full; as it is if it is not of an operation, as those of sweeps."""
        try:
            return None if self.problem is None else parse(self.problem).key
        except SkipjackError:
            return self.problem


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Recordings, and the searchers to compare on them."""

    recordings: tuple[Path, ...]
    searchers: tuple[str, ...]
    budget: int = 200
    """Unique evaluations of each run."""
    seeds: int = 20
    """The runs of each searcher have the seeds 0, 1, ..."""
    prior: tuple[Path, ...] = ()
    """Recordings of the same program on other devices, which searchers know before they start."""
    choice: LedgerChoice = LedgerChoice()
    jobs: int = 1

    def __post_init__(self) -> None:
        for what, value in (("budget", self.budget), ("seeds", self.seeds), ("jobs", self.jobs)):
            if value < 1:
                raise UsageError(f"--{what} must be at least 1, not {value}")
        if not self.recordings:
            raise UsageError("name a recording: a T4 file, a cache file of Kernel Tuner, a ledger")
        if not self.searchers:
            raise UsageError("name the searchers to compare: --searchers genetic,random")
        for searcher in self.searchers:
            check_name(searcher)
        known = {path.resolve() for path in self.recordings}
        for path in self.prior:
            if path.resolve() in known and self.choice == LedgerChoice():
                raise UsageError(f"{path} is the recording itself; --prior takes those of others")


@dataclass(frozen=True, slots=True)
class RecordingReplay:
    """The runs of all searchers on a recording, and what they found."""

    space: RecordedSpace
    budget: int
    """At most the number of its configs."""
    runs: tuple[ReplayRun, ...]
    scores: tuple[SearcherScore, ...]
    """The searchers, the smallest area first."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The comparison of searchers."""

    request: ReplayRequest
    recordings: tuple[RecordingReplay, ...]
    means: tuple[SearcherScore, ...]
    """Geometric means over the recordings; empty if there is only one."""
    interrupted: bool = False
    """Whether Ctrl-C ended it: the runs that were done by then are in it."""


def replay(
    request: ReplayRequest,
    observe: ReplayObserver = lambda done, of: None,
    *,
    settings: Settings | None = None,
    plugins: tuple[str, ...] = (),
    interrupt: Interrupt | None = None,
) -> ReplayResult:
    """Let each searcher look for the best config of each recording, with each seed.

    The result depends on the request alone, not on `jobs`. A request of `interrupt` ends it with
    the runs that are done.
    """
    configured(settings, plugins)
    stop = interrupt or Interrupt()
    spaces = _load_all(request)
    priors = [_load_prior(path, request.choice, spaces) for path in request.prior]
    for space in spaces:
        for searcher in request.searchers:  # a searcher that cannot search it says so now
            create(searcher, SearchContext(space, trials=request.budget))
    tasks = [
        ReplayTask(at, searcher, seed)
        for at in range(len(spaces))
        for searcher in request.searchers
        for seed in range(request.seeds)
    ]
    found: dict[ReplayTask, ReplayRun] = {}
    observe(0, len(tasks))
    one = partial(_replay, spaces, priors, request.budget)
    for task, run in run_replays(tasks, one, request.jobs, lambda: stop.requested):
        found[task] = run
        observe(len(found), len(tasks))
    runs = [
        [found[task] for task in tasks if task.recording == at and task in found]
        for at in range(len(spaces))
    ]
    return _result(request, spaces, runs, interrupted=len(found) < len(tasks))


def _replay(
    spaces: Sequence[RecordedSpace],
    priors: Sequence[Sequence[Trial]],
    budget: int,
    task: ReplayTask,
) -> ReplayRun:
    space = spaces[task.recording]
    return run_replay(space, task.searcher, budget, task.seed, prior=priors)


def _load_all(request: ReplayRequest) -> list[RecordedSpace]:
    """The recordings; the choice is for those that are ledgers."""
    ledgers = {path for path in request.recordings if _has_many(path)}
    return [
        _load(path, request.choice if path in ledgers or not ledgers else LedgerChoice())
        for path in request.recordings
    ]


def _has_many(path: Path) -> bool:
    return path.is_dir() or is_ledger(path)


def _load(path: Path, choice: LedgerChoice) -> RecordedSpace:
    space = load_recording(path, problem=choice.key, solver=choice.solver, device=choice.device)
    if isinf(space.optimum):
        raise UsageError(f"every config of {path.name} failed: there is nothing to find in it")
    return space


def _load_prior(
    path: Path, choice: LedgerChoice, spaces: Sequence[RecordedSpace]
) -> Sequence[Trial]:
    """The trials of another recording; of a ledger, those of the device that is not replayed."""
    chosen = LedgerChoice(choice.problem, choice.solver) if _has_many(path) else LedgerChoice()
    prior = _load(path, chosen)
    for space in spaces:
        if not space.usable_prior(prior.trials):
            raise UsageError(
                f"{path.name} is no prior of {space.name}: none of its configs has the same "
                "parameters and values"
            )
    return prior.trials


def _result(
    request: ReplayRequest,
    spaces: Sequence[RecordedSpace],
    runs: Sequence[Sequence[ReplayRun]],
    *,
    interrupted: bool,
) -> ReplayResult:
    scored: defaultdict[str, list[ScoredRuns]] = defaultdict(list)
    recordings = []
    for space, done in zip(spaces, runs, strict=True):
        baseline = RandomBaseline(space, request.budget)
        scores = []
        for searcher in request.searchers:
            curves = [run.curve for run in done if run.searcher == searcher]
            if curves:
                one = ScoredRuns(searcher, space.name, curves, baseline)
                scored[searcher].append(one)
                scores.append(one.summary())
        scores.sort(key=lambda score: score.area.mean)
        recordings.append(RecordingReplay(space, baseline.budget, tuple(done), tuple(scores)))
    complete = [several for several in scored.values() if len(several) == len(spaces) > 1]
    means = sorted(map(summarize_recordings, complete), key=lambda score: -score.score.mean)
    return ReplayResult(request, tuple(recordings), tuple(means), interrupted)


# ``export t4``: a recorded space as a T4 file.


@dataclass(frozen=True, slots=True)
class RecordingExport:
    """A recorded space that was written to a file."""

    file: Path
    recording: str
    configs: int
    failed: int


def export_t4(
    source: Path | None, output: Path, choice: LedgerChoice, *, settings: Settings | None = None
) -> RecordingExport:
    """Write the trials of a recording, by default of the user's ledger, as a T4 file."""
    path = source or configured(settings).user_dir
    if output.is_dir():
        raise UsageError(f"{output} is a directory; name a file, such as matmul.json.gz")
    space = load_recording(path, problem=choice.key, solver=choice.solver, device=choice.device)
    metadata = {
        name: value
        for name, value in (
            ("problem", choice.key),
            ("solver", choice.solver),
            ("device", choice.device),
        )
        if value
    }
    write_t4(output, TuningResults(space.trials, "time", space.unit, metadata))
    failed = sum(not trial.ok for trial in space.trials)
    return RecordingExport(output, space.name, space.count(), failed)


def split_searchers(texts: Sequence[str]) -> tuple[str, ...]:
    """Searchers of a list with commas, which also separate the parameters of one.

    ``genetic:population=30,tournament=5,random`` are two: a part that sets a value belongs to the
    searcher before it.
    """
    found: list[str] = []
    for text in texts:
        for number, part in enumerate(one.strip() for one in text.split(",")):
            if number and "=" in part and ":" not in part.partition("=")[0]:
                found[-1] += f",{part}"
            elif part:
                found.append(part)
            else:
                raise UsageError(f"--searchers {text!r} has an empty part; remove a comma")
    return tuple(dict.fromkeys(found))
