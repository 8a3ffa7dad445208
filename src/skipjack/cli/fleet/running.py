"""``skipjack run``: builds and evaluates the jobs of a label, here or on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.coordinating import Crew, EngineName, coordinate, with_devices
from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    RequiredLabel,
    UnitsOption,
    device_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import UsageError

if TYPE_CHECKING:
    from skipjack.cli.fleet.kinds import Asked
    from skipjack.fleet.runs import RunRequest

EXAMPLES = examples(
    "skipjack run -l resnet_2026_11",
    "skipjack run -l resnet_2026_11 --build",
    "skipjack run -l resnet_2026_11 --evaluate --evaluators 2",
    "skipjack run -l resnet_2026_11 --build -a gfx900 -n 56",
    "skipjack run -l resnet_2026_11 --find --find-mode 1",
    "skipjack run -l resnet_2026_11 --kernel-cache",
    "skipjack run -l resnet_2026_11 --image my_img",
    "skipjack run -l resnet_2026_11 --engine ray --address ray://head:10001",
    "skipjack run -l resnet_2026_11 --engine ray --address auto --machine gpu7",
    "skipjack run -l resnet_2026_11 --engine slurm -N 4 --gpus-per-node 8 --time 1:00:00",
)
_HOUR = "1:00:00"


def run(
    label: RequiredLabel,
    build: Annotated[bool, typer.Option("--build", help="Builders only.")] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Evaluators only: takes what is built.")
    ] = False,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    machine: Annotated[
        str,
        typer.Option("--machine", help="Only jobs for devices of this machine, evaluated there."),
    ] = "",
    find: Annotated[
        bool, typer.Option("--find", help="Rank all solvers of each problem, libraries too.")
    ] = False,
    find_mode: Annotated[
        int | None,
        typer.Option(help="1: rank all; 3: take rankings over that are there.", show_default="1"),
    ] = None,
    kernel_cache: Annotated[
        bool, typer.Option("--kernel-cache", help="Build and check each problem's winner to ship.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="With these two: do again what is done.")
    ] = False,
    engine: Annotated[EngineName, typer.Option(help="Where workers are.")] = EngineName.LOCAL,
    address: Annotated[
        str | None, typer.Option(help="Of a Ray cluster, as ray://head:10001 or auto.")
    ] = None,
    builders: Annotated[
        int | None, typer.Option(min=0, help="Builders; as many as cores but one.")
    ] = None,
    evaluators: Annotated[
        int | None, typer.Option(min=0, help="Evaluators; one for each device, or one CPU.")
    ] = None,
    image: Annotated[
        str, typer.Option(help="Workers run in containers of this image, each in its own.")
    ] = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Stay until every job of the label is over.")
    ] = False,
    lease: Annotated[
        float,
        typer.Option(
            min=2.0,
            max=86400.0,
            help="Seconds after which jobs of a coordinator that died are free.",
        ),
    ] = 60.0,
    nodes: Annotated[int, typer.Option("-N", "--nodes", min=1, help="Slurm: nodes.")] = 1,
    gpus_per_node: Annotated[int, typer.Option(min=0, help="Slurm: GPUs of each node.")] = 0,
    time: Annotated[str, typer.Option(help="Slurm: time limit.")] = _HOUR,
    partition: Annotated[str, typer.Option(help="Slurm: partition.")] = "",
    account: Annotated[str, typer.Option(help="Slurm: account.")] = "",
    qos: Annotated[str, typer.Option(help="Slurm: quality of service.")] = "",
    sbatch: Annotated[
        list[str] | None, typer.Option(help="Slurm: a further option, as --constraint=a100.")
    ] = None,
    until_done: Annotated[
        bool, typer.Option("--until-done", help="Slurm: queue again while jobs are left.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Slurm: print the script and submit nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Work through the jobs of a label; running again continues.

    Several may run at once.
    """
    from skipjack.cli.fleet.kinds import asked_for
    from skipjack.fleet.runs import RunRequest
    from skipjack.fleet.states import Stage

    asked = asked_for(find, find_mode, kernel_cache, fresh)
    named = device_of(device, arch, units)
    if engine is not EngineName.RAY and address:
        raise UsageError("--address is for --engine ray")
    if image and engine is not EngineName.LOCAL:
        raise UsageError(
            "--image is for --engine local; skipjack fleet up --image starts Ray in containers"
        )
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
        raise UsageError(f"{', '.join(given)}: for --engine slurm alone")
    if engine is EngineName.SLURM and machine:
        raise UsageError(
            "--machine is not for --engine slurm, which chooses the nodes; name a --device, and "
            "nodes as --sbatch=--nodelist=NAME"
        )
    if builders == 0 and evaluators == 0:
        raise UsageError("without builders and evaluators nothing is done; leave one of them out")
    if engine is not EngineName.SLURM and build == evaluate:
        build, evaluate = evaluators == 0, builders == 0
    both = build == evaluate
    chosen = {Stage.BUILD: both or build, Stage.EVALUATE: both or evaluate}
    stages = tuple(stage for stage, wanted in chosen.items() if wanted)
    request = RunRequest(
        label, stages, wait, lease, devices=(named,) if named else (), machine=machine
    )
    if engine is EngineName.SLURM:
        window = [] if both else ["--build"] if build else ["--evaluate"]
        counts = [("--builders", builders), ("--evaluators", evaluators)]
        more = [word for name, n in counts if n is not None for word in (name, str(n))]
        _submit(
            request,
            asked,
            dry_run=dry_run,
            json=json,
            nodes=nodes,
            gpus_per_node=gpus_per_node,
            time=time,
            partition=partition,
            account=account,
            qos=qos,
            extra=tuple(sbatch or ()),
            until_done=until_done,
            run_arguments=(
                *(*asked.words, *window, *more),
                *(["--device", named] if named else []),
                *(["--wait"] if wait else []),
                *("--lease", f"{lease:g}"),
            ),
        )
        return
    crew = Crew(engine, address, builders, evaluators, image)
    coordinate(request, asked, crew, json)


def _submit(
    request: RunRequest, asked: Asked, *, dry_run: bool, json: bool, **fields: object
) -> None:
    from json import dumps

    from skipjack import plugins
    from skipjack.cli.fleet.kinds import make_now
    from skipjack.fleet.slurm import SlurmRequest, batch_script, submit
    from skipjack.settings import load_settings

    label = request.label
    wanted = SlurmRequest(label, **fields)  # type: ignore[arg-type]
    with the_store() as store:
        store.label(label)  # a wrong name should fail now, not in the queue
        request = with_devices(store, request)
        if not dry_run and asked.words:
            settings = load_settings()
            plugins.load(settings.plugins)
            make_now(asked, store, label, settings, request.devices)
    if dry_run:
        typer.echo(batch_script(wanted), nl=False)
        return
    submitted = submit(wanted)
    if json:
        typer.echo(dumps({"format": 1, "slurm_job": submitted.job, "cluster": submitted.cluster}))
    else:
        typer.echo(f"submitted as Slurm job {submitted.job}; squeue shows it")
