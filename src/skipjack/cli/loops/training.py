"""What ``skipjack loops train`` does: a run is begun or found, trained, and judged."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from skipjack.learn.runs import RunFolder, TrainingProgress, TrainOptions


@dataclass(frozen=True)
class RunPlaces:
    """Where a run is."""

    resume: Path | None
    out: Path | None


@dataclass(frozen=True)
class Telling:
    """Who hears of it."""

    wandb: bool
    wandb_url: str
    json: bool


def run_training(asked: Mapping[str, Any], places: RunPlaces, telling: Telling) -> None:
    """Begin a run or go on with one, then judge its policy."""
    folder = _folder(_read(asked), places, telling)
    with ExitStack() as stack:
        _hold(folder, stack)
        _train(folder, telling)
        _judge(folder, telling)


# Begin and find


def _read(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Texts as what they name."""
    from skipjack.cli.loops.search import chosen_preset
    from skipjack.learn.runs import trainer_named, whole_rates

    read: dict[str, Callable[[str], Any]] = {
        "trainer": trainer_named,
        "preset": chosen_preset,
        "rates": whole_rates,
        "eval_rates": whole_rates,
    }
    return {name: read[name](value) if name in read else value for name, value in asked.items()}


def _folder(asked: dict[str, Any], places: RunPlaces, telling: Telling) -> RunFolder:
    from skipjack.errors import UsageError
    from skipjack.learn.runs import LONGEST, RunFolder, TrainOptions, continued

    if places.resume is not None:
        if places.out is not None:
            raise UsageError("--resume goes on in its own folder; leave --out out")
        folder = RunFolder.open(places.resume)
        folder.options = continued(folder.options, asked, places.resume)
        return folder
    if "dataset" not in asked:
        raise UsageError("name the problems with --dataset, or a run to go on with by --resume")
    if "preset" in asked:
        asked.setdefault("episode_steps", LONGEST[asked["preset"]])
    if telling.wandb_url:
        asked.setdefault("start", telling.wandb_url)
    return _begun(TrainOptions(**asked), places.out, telling)


def _begun(options: TrainOptions, out: Path | None, telling: Telling) -> RunFolder:
    from skipjack.learn.runs import begin_run, fetch_policy, free_folder

    place = out or free_folder(options)
    if not telling.wandb_url or options.start != telling.wandb_url:
        return begin_run(place, options)
    with tempfile.TemporaryDirectory() as fetched:
        policy = fetch_policy(telling.wandb_url, Path(fetched))
        return begin_run(place, options, str(policy))


def _hold(folder: RunFolder, stack: ExitStack) -> None:
    """No second process may write to the folder."""
    from skipjack.errors import LockTimeoutError, UsageError
    from skipjack.storage import FileLock

    try:
        stack.enter_context(FileLock(folder.path / "run.lock", timeout_s=0))
    except LockTimeoutError:
        raise UsageError(f"another process trains in {folder.path}; wait until it is done") from (
            None
        )


# Training


def _train(folder: RunFolder, telling: Telling) -> None:
    from skipjack.errors import InterruptedRunError
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.learn.runs import open_learner, open_sinks, resume, train
    from skipjack.report.loops import training_progress

    with ExitStack() as stack:
        interrupt = stack.enter_context(
            watch_for_interrupt("a checkpoint is saved after this iteration", terminate=True)
        )
        learner = open_learner(folder)
        stack.callback(learner.close)
        resume(folder, learner)
        _announce(folder, learner.steps, telling.json)
        if learner.steps >= folder.options.total_steps:
            return
        sinks = open_sinks(folder, wandb=telling.wandb, wandb_run=telling.wandb_url)
        for sink in sinks:
            stack.callback(sink.close, folder.path)
        show = stack.enter_context(training_progress(not telling.json))
        done = train(
            folder,
            learner,
            watch=_told if telling.json else show,
            sinks=sinks,
            stop=lambda: interrupt.requested,
        )
    if not done:
        raise InterruptedRunError(
            f"interrupted: {learner.steps} of {folder.options.total_steps} steps are done and "
            f"saved; go on with skipjack loops train --resume {folder.path}"
        )


def _announce(folder: RunFolder, steps: int, json: bool) -> None:
    from skipjack.learn.runs import what_rates_are

    options, dataset = folder.options, folder.dataset()
    if json:
        return
    how = f"goes on after {steps} steps" if steps else "begins"
    typer.echo(
        f"Run {folder.path} {how}: {options.trainer} on {len(dataset.train)} problems of "
        f"{dataset.name} for {folder.device.name}, preset {options.preset}, seed {options.seed}."
    )
    typer.echo(
        f"Times to train on are {what_rates_are(options.rates)} (--rates {options.rates}), those "
        f"to be judged on {what_rates_are(options.eval_rates)} (--eval-rates {options.eval_rates})."
    )


def _told(progress: TrainingProgress) -> None:
    from json import dumps

    typer.echo(dumps({"total_steps": progress.total_steps, **progress.curves}))


# Judging


def _judge(folder: RunFolder, telling: Telling) -> None:
    from json import dumps

    from skipjack.cli.loops.evaluate import Judging, judge
    from skipjack.errors import InterruptedRunError
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.learn.policy import find_policy
    from skipjack.learn.tree import SearchBudget

    options = folder.options
    if not options.eval_size:
        if not telling.json:
            typer.echo(f"Saved at: {folder.path}")
        return
    limits = SearchBudget(options.eval_budget, options.episode_steps, options.eval_time)
    problems = folder.dataset().problems("test")[: options.eval_size]
    policy = find_policy(str(folder.path), options.preset)
    asked = Judging(
        policy, problems, options.eval_rates, limits, options.threads, range(1), folder.evaluation
    )
    try:
        with watch_for_interrupt() as interrupt:
            judge(asked, lambda: interrupt.requested, telling.json)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"interrupted: the policy is trained; skipjack loops train --resume {folder.path} "
            "judges it"
        ) from None
    if telling.json:
        typer.echo(dumps({"run": str(folder.path), "options": asdict(options)}))
