"""``skipjack loops train``: trains a policy to play loop nests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from skipjack.app import EngineName
from skipjack.cli.arguments import JsonOption, PluginOption, examples
from skipjack.cli.loops.options import AppOption, GpusOption, chosen_preset, warn_of_unused
from skipjack.cli.loops.training_run import (
    RunPaths,
    TrainingOutput,
    run_training,
    submit_training,
    workers_of,
)
from skipjack.errors import UsageError

_HOUR = "1:00:00"

EXAMPLES = examples(
    "skipjack loops train --dataset mm64_256_16 --total-steps 200000 --out RUN",
    "skipjack loops train --dataset mm64_256_16 --trainer dqn --episode-steps 10 --eval-size 5 "
    "--eval-time 10",
    "skipjack loops train --dataset mm64_256_16 --rates tables --seed 3",
    "skipjack loops train --resume RUN --total-steps 400000",
    "skipjack loops train --dataset mm64_256_16 --engine slurm -N 4 --time 1:00:00 --out RUN",
)
EPISODES = {"ppo": 64, "dqn": 32, "sb3": 64}
"""Episodes per iteration, by trainer."""


def train(
    dataset: Annotated[str | None, typer.Option(help="The dataset, by name or file.")] = None,
    trainer: Annotated[str | None, typer.Option(help="The trainer: ppo, dqn or sb3 (ppo).")] = None,
    total_steps: Annotated[
        int | None, typer.Option(help="Total number of actions to play (200000).")
    ] = None,
    iterations: Annotated[
        int | None, typer.Option("--iter", help="Number of iterations, instead of --total-steps.")
    ] = None,
    episode_steps: Annotated[
        int | None,
        typer.Option(
            "--episode-steps",
            "--steps",
            help="Maximum number of actions per episode (10; 40 with the preset full).",
        ),
    ] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes per iteration (64; dqn: 32).")
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="The set of actions: looptune or full (looptune).")
    ] = None,
    rates: Annotated[
        str | None,
        typer.Option(
            "--rates",
            "--rates-from",
            help="Source of times for training: live, model, mixed:SHARE, or tables (model).",
        ),
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="Number of threads that may share a loop (1).")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Random seed (0).")] = None,
    start: Annotated[
        str | None,
        typer.Option(help="The initial policy: a training run, a file, or shipped."),
    ] = None,
    eval_size: Annotated[
        int | None,
        typer.Option(
            "--eval-size",
            "--eval_size",
            help="Number of problems to evaluate it on at the end; 0 for none (5).",
        ),
    ] = None,
    eval_time: Annotated[
        float | None,
        typer.Option(
            "--eval-time",
            "--eval_time",
            help="Time limit for each search of the evaluation, in seconds (10).",
        ),
    ] = None,
    eval_budget: Annotated[
        int | None, typer.Option(help="Maximum number of schedules that each search measures (30).")
    ] = None,
    eval_rates: Annotated[
        str | None, typer.Option(help="Source of times for the evaluation, as for --rates (live).")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="The folder of a run to continue.")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder for the run (runs/DATASET-TRAINER-SEED)."),
    ] = None,
    wandb: Annotated[
        bool, typer.Option("--wandb", help="Also report to Weights & Biases.")
    ] = False,
    wandb_url: Annotated[
        str | None,
        typer.Option(
            "--wandb-url",
            "--wandb_url",
            help="A run of Weights & Biases, entity/project/run: start with its policy and report "
            "to it.",
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-nc",
            min=1,
            help="Number of processes that play, on each node with Ray (1; Ray: one per CPU).",
        ),
    ] = None,
    engine: Annotated[
        EngineName, typer.Option(help="Where they play: here, on a Ray cluster, or in a Slurm job.")
    ] = EngineName.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(
            help="Ray: a cluster, such as ray://head:10001, or auto (a new one on this machine)."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option("-N", "--nodes", min=1, help="Slurm: number of nodes.")] = 1,
    time: Annotated[str, typer.Option(help="Slurm: time limit.")] = _HOUR,
    partition: Annotated[str, typer.Option(help="Slurm: partition.")] = "",
    account: Annotated[str, typer.Option(help="Slurm: account.")] = "",
    qos: Annotated[str, typer.Option(help="Slurm: quality of service.")] = "",
    sbatch: Annotated[
        list[str] | None,
        typer.Option(help="Slurm: a further option, such as --constraint=highmem; repeatable."),
    ] = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Slurm: resubmit until all steps are played.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Slurm: print the script and submit nothing.")
    ] = False,
    app: AppOption = None,
    gpus: GpusOption = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Train a policy on the problems of a dataset, and compare it with every search.

    Ctrl-C saves a checkpoint; --resume continues from there as if nothing had happened.
    """
    from skipjack import plugins
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    warn_of_unused({"--app": app, "-ng": gpus})
    given: dict[str, Any] = {
        "dataset": dataset,
        "trainer": trainer,
        "total_steps": total_steps,
        "preset": preset,
        "episode_steps": episode_steps,
        "episodes": episodes,
        "rates": rates,
        "threads": threads,
        "seed": seed,
        "start": start,
        "eval_size": eval_size,
        "eval_time": eval_time,
        "eval_budget": eval_budget,
        "eval_rates": eval_rates,
    }
    requested = {name: value for name, value in given.items() if value is not None}
    if iterations is not None:
        requested["total_steps"] = _steps_of(iterations, requested, resume)
    output = TrainingOutput(wandb, wandb_url or "", json)
    if engine is not EngineName.RAY and address:
        raise UsageError("--address is for --engine ray")
    slurm: dict[str, Any] = {
        "nodes": nodes,
        "time": time,
        "partition": partition,
        "account": account,
        "qos": qos,
        "extra": tuple(sbatch or ()),
        "until_done": until_done,
    }
    if engine is EngineName.SLURM:
        submit_training(requested, RunPaths(resume, out), output, workers, slurm, dry_run)
        return
    unusual = slurm | {"nodes": nodes > 1, "time": time != _HOUR, "dry_run": dry_run}
    words = [f"--{name.replace('_', '-')}" for name, on in unusual.items() if on]
    if words:
        named = ", ".join(words).replace("--extra", "--sbatch")
        raise UsageError(f"{named}: only for --engine slurm")
    run_training(requested, RunPaths(resume, out), output, workers_of(engine, workers, address))


def _steps_of(iterations: int, requested: dict[str, Any], resume: Path | None) -> int:
    """The number of actions in these iterations, if no episode ends early."""
    from skipjack.learn.runs import trainer_named

    if "total_steps" in requested:
        raise UsageError("--iter and --total-steps both limit the training; give only one of them")
    if resume is not None:
        raise UsageError("--iter is for new runs; to continue a run, give --total-steps")
    if iterations < 1:
        raise UsageError(f"--iter is {iterations}; give 1 or more")
    episodes = requested.get("episodes") or EPISODES[trainer_named(requested.get("trainer", "ppo"))]
    steps = (
        requested.get("episode_steps")
        or chosen_preset(requested.get("preset", "looptune")).episode_steps
    )
    return int(iterations * episodes * steps)
