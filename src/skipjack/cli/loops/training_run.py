"""The work of ``skipjack loops train``: begin or continue a run, train, and evaluate."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from skipjack.app import EngineName
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.learn.runs import RunFolder, TrainingProgress, TrainingWorkers, TrainOptions


@dataclass(frozen=True)
class RunPaths:
    """The folder of a run to continue, or of a new one."""

    resume: Path | None
    out: Path | None


@dataclass(frozen=True)
class TrainingOutput:
    """Where the progress of a run is reported."""

    wandb: bool
    wandb_url: str
    json: bool


def run_training(
    requested: Mapping[str, Any], paths: RunPaths, output: TrainingOutput, workers: TrainingWorkers
) -> None:
    """Begin or continue a run, then evaluate its policy."""
    from skipjack.errors import InterruptedRunError

    folder = _folder(_read(requested), paths, output, workers)
    _check_evaluation(folder)
    with ExitStack() as stack:
        _hold(folder, stack)
        folder.write_record()
        try:
            _train(folder, output, workers)
        except KeyboardInterrupt:
            raise InterruptedRunError(
                "interrupted within an iteration; continue from the last checkpoint with "
                f"skipjack loops train --resume {folder.path}"
            ) from None
        _evaluate(folder, output)


def workers_of(engine: EngineName, workers: int | None, address: str | None) -> TrainingWorkers:
    """The processes that play."""
    from skipjack.learn.runs import IN_PROCESS, LOCAL, RAY, TrainingWorkers

    if engine is EngineName.RAY:
        return TrainingWorkers(RAY, workers, address)
    return TrainingWorkers(LOCAL if (workers or 1) > 1 else IN_PROCESS, workers or 1)


def submit_training(
    requested: Mapping[str, Any],
    paths: RunPaths,
    output: TrainingOutput,
    workers: int | None,
    slurm: Mapping[str, Any],
    dry_run: bool,
) -> None:
    """Submit a Slurm job for a run that is begun here, so that mistakes are reported at once.

    The job starts Ray on its nodes; only the first node needs access to the folder.
    """
    from skipjack.fleet import slurm as batch
    from skipjack.learn.runs import RAY, TrainingWorkers
    from skipjack.report import print_json

    if dry_run:
        path = paths.resume or paths.out or Path("RUN")
    else:
        path = _written(_folder(_read(requested), paths, output, TrainingWorkers(RAY)))
    words = ["loops", "train", "--resume", str(path.absolute()), "--engine", "ray"]
    words += [] if workers is None else ["--workers", str(workers)]
    words += ["--wandb"] if output.wandb else []
    request = batch.SlurmRequest(f"train-{path.name}", command=tuple(words), **slurm)
    if dry_run:
        typer.echo(batch.batch_script(request), nl=False)
        return
    submitted = batch.submit(request)
    if output.json:
        job = {"slurm_job": submitted.job, "cluster": submitted.cluster}
        print_json("loops train", {**job, "run": str(path)})
    else:
        typer.echo(f"submitted as Slurm job {submitted.job}; squeue shows it; the run is in {path}")


def _written(folder: RunFolder) -> Path:
    """The folder of a run, after writing its request to its record."""
    with ExitStack() as stack:
        _hold(folder, stack)
        folder.write_record()
    return folder.path


# Begin and find


def _read(requested: Mapping[str, Any]) -> dict[str, Any]:
    """Convert texts to the values that they name."""
    from skipjack.cli.loops.options import chosen_preset
    from skipjack.learn.runs import absolute_rates, trainer_named

    read: dict[str, Callable[[str], Any]] = {
        "trainer": trainer_named,
        "preset": chosen_preset,
        "rates": absolute_rates,
        "eval_rates": absolute_rates,
    }
    return {name: read[name](value) if name in read else value for name, value in requested.items()}


def _folder(
    requested: dict[str, Any], paths: RunPaths, output: TrainingOutput, workers: TrainingWorkers
) -> RunFolder:
    from skipjack.errors import UsageError
    from skipjack.learn.runs import RunFolder, TrainOptions, check_wandb, check_workers, continued

    if output.wandb:
        check_wandb()
    if paths.resume is not None:
        if paths.out is not None:
            raise UsageError("--resume continues in the run's own folder; leave --out out")
        folder = RunFolder.open(paths.resume)
        folder.options = continued(folder.options, requested, paths.resume)
        check_workers(folder.options, workers)
        return folder
    if "dataset" not in requested:
        raise UsageError("name the problems with --dataset, or a run to continue with --resume")
    if "preset" in requested:
        requested.setdefault("episode_steps", requested["preset"].episode_steps)
    if output.wandb_url:
        requested.setdefault("start", output.wandb_url)  # also a run that is here
    options = TrainOptions(**requested)
    check_workers(options, workers)
    return _begun(options, paths.out, output)


def _begun(options: TrainOptions, out: Path | None, output: TrainingOutput) -> RunFolder:
    from skipjack.learn.runs import begin_run, fetch_policy, free_folder

    place = out or free_folder(options)
    if not output.wandb_url or options.start != output.wandb_url or Path(options.start).exists():
        return begin_run(place, options)
    with tempfile.TemporaryDirectory() as fetched:
        policy = fetch_policy(output.wandb_url, Path(fetched))
        return begin_run(place, options, start=str(policy))


def _hold(folder: RunFolder, stack: ExitStack) -> None:
    """Lock the folder, so that no other process writes to it."""
    from skipjack.errors import LockTimeoutError, UsageError
    from skipjack.storage import FileLock

    try:
        stack.enter_context(FileLock(folder.path / "run.lock", timeout_s=0))
    except LockTimeoutError:
        raise UsageError(f"another process is training in {folder.path}; wait until it ends") from (
            None
        )


def _check_evaluation(folder: RunFolder) -> None:
    """Check before hours of training that times for the evaluation are available."""
    from skipjack.learn.rates import check_rated, rated_device

    options = folder.options
    device = rated_device(options.eval_rates, None, options.threads)
    check_rated(options.eval_rates, device, folder.dataset().problems("test")[: options.eval_size])


# Training


def _train(folder: RunFolder, output: TrainingOutput, workers: TrainingWorkers) -> None:
    from skipjack.errors import InterruptedRunError
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.runs import open_learner, open_sinks, resume, train
    from skipjack.report.loops import training_progress

    with ExitStack() as stack:
        interrupt = stack.enter_context(
            deferred_interrupt("a checkpoint is saved after this iteration", terminate=True)
        )
        learner = open_learner(folder, workers)
        stack.callback(learner.close)
        resume(folder, learner)
        _print_begin(folder, learner.steps, output.json)
        if learner.steps >= folder.options.total_steps:
            return
        other = "" if Path(output.wandb_url).exists() else output.wandb_url
        sinks = open_sinks(folder, wandb=output.wandb, wandb_run=other)
        for sink in sinks:
            stack.callback(sink.close, folder.path)
        show = stack.enter_context(training_progress(not output.json, folder.curves()))
        done = train(
            folder,
            learner,
            workers,
            watch=_print_line if output.json else show,
            sinks=sinks,
            stop=lambda: interrupt.requested,
        )
    counts = folder.sessions[-1].schedules
    if counts and not output.json:
        said = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        typer.echo(f"Times of schedules in training: {said}.")
    if not done:
        raise InterruptedRunError(
            f"interrupted: {learner.steps} of {folder.options.total_steps} steps are done and "
            f"saved; continue with skipjack loops train --resume {folder.path}"
        )


def _print_begin(folder: RunFolder, steps: int, json: bool) -> None:
    from skipjack.learn.runs import what_rates_are

    options, dataset = folder.options, folder.dataset()
    if json:
        return
    how = f"continues after {numbered(steps, 'step')}" if steps else "begins"
    typer.echo(
        f"Run {folder.path} {how}: {options.trainer} on "
        f"{numbered(len(dataset.train), 'problem')} of {dataset.name} for {folder.device.name}, "
        f"preset {options.preset}, seed {options.seed}."
    )
    said = f"Times for training are {what_rates_are(options.rates)} (--rates {options.rates})"
    if options.eval_size:
        judged = what_rates_are(options.eval_rates)
        said += f", those for the evaluation {judged} (--eval-rates {options.eval_rates})"
    typer.echo(f"{said}.")


def _print_line(progress: TrainingProgress) -> None:
    from skipjack.report import print_json

    print_json("loops train", {"total_steps": progress.total_steps, **progress.curves})


# Evaluation


def _evaluate(folder: RunFolder, output: TrainingOutput) -> None:
    from skipjack.cli.loops.evaluate import EvaluationRequest, run_evaluation
    from skipjack.errors import InterruptedRunError
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.policy import find_policy
    from skipjack.learn.tree import SearchBudget
    from skipjack.report import print_json

    options = folder.options
    if not options.eval_size:
        if not output.json:
            typer.echo(f"Saved at: {folder.path}")
        return
    limits = SearchBudget(options.eval_budget, options.episode_steps, options.eval_time)
    problems = folder.dataset().problems("test")[: options.eval_size]
    policy = find_policy(str(folder.path), options.preset)
    requested = EvaluationRequest(
        policy, problems, options.eval_rates, limits, options.threads, range(1), folder.evaluation
    )
    try:
        with deferred_interrupt() as interrupt:
            run_evaluation(requested, lambda: interrupt.requested, output.json)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"interrupted: the policy is trained; skipjack loops train --resume {folder.path} "
            "evaluates it"
        ) from None
    if output.json:
        print_json("loops train", {"run": str(folder.path), "options": asdict(options)})
