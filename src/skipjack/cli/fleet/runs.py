"""``skipjack run``: builds and evaluates the jobs of a label, here or on a cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.app import EngineName
from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    RequiredLabel,
    UnitsOption,
    Work,
    device_of,
    examples,
    in_two_steps,
)
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.app import RunOptions, SlurmOptions
    from skipjack.fleet.model import JobKind


EXAMPLES = examples(
    "skipjack run -l resnet_2026_11",
    "skipjack run -l resnet_2026_11 --build",
    "skipjack run -l resnet_2026_11 --evaluate --evaluators 2",
    "skipjack run -l resnet_2026_11 --build -a gfx900 -n 56",
    "skipjack run -l resnet_2026_11 --find --find-mode 1",
    "skipjack run -l resnet_2026_11 --kernel-cache",
    "skipjack run -l resnet_2026_11 --device-seconds 3600",
    "skipjack run -l resnet_2026_11 --image my_img",
    "skipjack run -l resnet_2026_11 --engine ray --address ray://head:10001",
    "skipjack run -l resnet_2026_11 --engine ray --address auto --machine gpu7",
    "skipjack run -l resnet_2026_11 --engine slurm -N 4 --gpus-per-node 8 --time 1:00:00",
)
_HOUR = "1:00:00"
_NORMAL, _HYBRID = 1, 3
_ELSEWHERE = {
    2: "find mode 2 (fast) measures nothing, so there is nothing to run: skipjack.lookup() answers "
    "from banks, a heuristic, the nearest problem, a solver's first proposal or a library; "
    "skipjack bank why PROBLEM shows which",
    5: "find mode 5 (dynamic hybrid), which skips solvers that compile for each shape, is not "
    "supported; --find-mode 3 ranks all solvers of problems that have no ranking yet",
}


@in_two_steps
def run(
    label: RequiredLabel,
    build: Annotated[bool, typer.Option("--build", help="Only build.")] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Only evaluate what is built.")
    ] = False,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    machine: Annotated[
        str,
        typer.Option("--machine", help="Only jobs for devices of this machine, evaluated there."),
    ] = "",
    find: Annotated[
        bool, typer.Option("--find", help="Rank all solvers of each problem, including libraries.")
    ] = False,
    find_mode: Annotated[
        int | None,
        typer.Option(help="1: rank all problems; 3: reuse existing rankings.", show_default="1"),
    ] = None,
    kernel_cache: Annotated[
        bool,
        typer.Option(
            "--kernel-cache",
            help="Build and check the kernel of each problem's winner, to be shipped.",
        ),
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With --find or --kernel-cache: do finished jobs again.")
    ] = False,
    engine: Annotated[EngineName, typer.Option(help="Where workers run.")] = EngineName.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(help="Address of a Ray cluster, such as ray://head:10001, or auto."),
    ] = None,
    builders: Annotated[
        int | None, typer.Option(min=0, help="Number of builders (one less than the cores).")
    ] = None,
    evaluators: Annotated[
        int | None,
        typer.Option(min=0, help="Number of evaluators (one for each GPU, or one for the CPU)."),
    ] = None,
    image: Annotated[str, typer.Option(help="Run each worker in a container of this image.")] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until every job of the label has ended.")
    ] = False,
    device_seconds: Annotated[
        float | None,
        typer.Option(
            "--device-seconds",
            help="Device time of all jobs of the label together; it is spent where the expected "
            "gain times calls is largest. A larger number continues.",
        ),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            min=2.0,
            max=86400.0,
            help="Seconds until jobs of a coordinator that died can be claimed again.",
        ),
    ] = 60.0,
    nodes: Annotated[int, typer.Option("-N", "--nodes", min=1, help="Slurm: number of nodes.")] = 1,
    gpus_per_node: Annotated[int, typer.Option(min=0, help="Slurm: GPUs per node.")] = 0,
    time: Annotated[str, typer.Option(help="Slurm: time limit.")] = _HOUR,
    partition: Annotated[str, typer.Option(help="Slurm: partition.")] = "",
    account: Annotated[str, typer.Option(help="Slurm: account.")] = "",
    qos: Annotated[str, typer.Option(help="Slurm: quality of service.")] = "",
    sbatch: Annotated[
        list[str] | None,
        typer.Option(help="Slurm: a further option, such as --constraint=a100; repeatable."),
    ] = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Slurm: resubmit while jobs are left.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Slurm: print the script and submit nothing.")
    ] = False,
    json: JsonOption = False,
) -> Work:
    """Build and evaluate the jobs of a label; running again continues.

    Several runs may work on the same label at once.
    """
    from skipjack.app import RunOptions, SlurmOptions

    kind = _kind(find, find_mode, kernel_cache, fresh)
    for_slurm: dict[str, object] = {
        "-N": nodes != 1,
        "--gpus-per-node": gpus_per_node,
        "--time": time != _HOUR,
        "--partition": partition,
        "--account": account,
        "--qos": qos,
        "--sbatch": sbatch,
        "--until-done": until_done,
        "--dry-run": dry_run,
    }
    if engine is not EngineName.SLURM and (given := [word for word, on in for_slurm.items() if on]):
        raise UsageError(f"{', '.join(given)}: only for --engine slurm")
    both = build == evaluate
    options = RunOptions(
        label,
        kind,
        find_mode == _HYBRID,
        fresh,
        both or build,
        both or evaluate,
        device_of(device, arch, units),
        machine,
        wait,
        lease,
        engine=engine,
        address=address,
        builders=builders,
        evaluators=evaluators,
        image=image,
        device_seconds=device_seconds,
    )
    if engine is not EngineName.SLURM:
        return partial(_run, options, json)
    slurm = SlurmOptions(
        nodes, gpus_per_node, time, partition, account, qos, tuple(sbatch or ()), until_done
    )
    return partial(_submit, options, slurm, dry_run, json)


def _kind(find: bool, find_mode: int | None, kernel_cache: bool, fresh: bool) -> JobKind:
    """The kind of jobs that the options select; `UsageError` if they contradict each other."""
    from skipjack.fleet.model import JobKind

    if find and kernel_cache:
        raise UsageError(
            "--find and --kernel-cache are two runs; run --find first, then --kernel-cache"
        )
    if find_mode is not None:
        if not find:
            raise UsageError("--find-mode is an option of --find; add --find")
        if find_mode in _ELSEWHERE:
            raise UsageError(_ELSEWHERE[find_mode])
        if find_mode not in (_NORMAL, _HYBRID):
            raise UsageError(
                f"unknown find mode {find_mode}; 1 ranks all problems, 3 those without a ranking"
            )
    if fresh and not (find or kernel_cache):
        raise UsageError(
            "--fresh is for --find and --kernel-cache; skipjack reset --state evaluated --to new "
            "starts tuning jobs over"
        )
    if fresh and find_mode == _HYBRID:
        raise UsageError(
            "--fresh repeats finished jobs and --find-mode 3 skips them; give only one"
        )
    return JobKind.FIND if find else JobKind.KERNELS if kernel_cache else JobKind.TUNE


def _submit(options: RunOptions, slurm: SlurmOptions, dry_run: bool, json: bool) -> None:
    from skipjack.app import submit_run
    from skipjack.report.fleet import render_queued

    render_queued(submit_run(options, slurm, dry_run=dry_run), json)


def _run(options: RunOptions, json: bool) -> None:
    """Do the jobs here or on a cluster; `SkipjackError` if some are left."""
    from skipjack import app
    from skipjack.interrupt import deferred_interrupt
    from skipjack.report.fleet import leftovers, run_screen

    with (
        deferred_interrupt("giving all jobs back", terminate=True) as interrupt,
        run_screen(json=json) as observe,
    ):
        result = app.run(options, observe, interrupt=interrupt)
    if result.interrupted:
        raise KeyboardInterrupt
    if complaint := leftovers(result):
        raise SkipjackError(complaint)
