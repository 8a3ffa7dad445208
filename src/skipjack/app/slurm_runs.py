"""``run --engine slurm``: the jobs of a label, put into Slurm's queue."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.app.configuration import configured
from skipjack.app.runs import RunOptions, run_phases, with_devices
from skipjack.errors import UsageError
from skipjack.fleet import slurm as batch
from skipjack.fleet.store import Store, open_store
from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The resources that a run requests from Slurm."""

    nodes: int = 1
    gpus_per_node: int = 0
    time: str = "1:00:00"
    partition: str = ""
    account: str = ""
    qos: str = ""
    extra: tuple[str, ...] = ()
    """Further options of sbatch, such as ``--constraint=a100``."""
    until_done: bool = False
    """Resubmit while jobs are left."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run in Slurm's queue, or the script of one that was not submitted."""

    script: str
    submitted: batch.Submitted | None = None


def submit_run(
    options: RunOptions,
    slurm: SlurmOptions | None = None,
    *,
    dry_run: bool = False,
    settings: Settings | None = None,
    store: Store | None = None,
) -> QueuedRun:
    """Submit a run to Slurm's queue; with `dry_run`, only make the script."""
    requested = slurm or SlurmOptions()
    if requested.until_done and options.device_seconds is not None:
        raise UsageError(
            "--until-done resubmits while jobs are left, and --device-seconds leaves some; give "
            "only one of them"
        )
    wanted = batch.SlurmRequest(
        options.label,
        nodes=requested.nodes,
        gpus_per_node=requested.gpus_per_node,
        time=requested.time,
        partition=requested.partition,
        account=requested.account,
        qos=requested.qos,
        extra=requested.extra,
        until_done=requested.until_done,
        run_arguments=_run_words(options),
    )
    chosen = configured(settings)
    if store is not None:
        _make_now(options, chosen, store, dry_run)
    else:
        with open_store(settings=chosen) as opened:
            _make_now(options, chosen, opened, dry_run)
    script = batch.batch_script(wanted)
    return QueuedRun(script) if dry_run else QueuedRun(script, batch.submit(wanted))


def _make_now(options: RunOptions, settings: Settings, store: Store, dry_run: bool) -> None:
    """Make the jobs of a run that starts later on another machine."""
    store.labels.get(options.label)  # a wrong name fails now, and not in the queue
    request = with_devices(store, options.request)
    if not dry_run:
        for _ in run_phases(options, store, settings, request.devices):
            pass


def _run_words(options: RunOptions) -> tuple[str, ...]:
    """The options of the run that Slurm starts."""
    both = options.build == options.evaluate
    window = [] if both else ["--build"] if options.build else ["--evaluate"]
    counts = [("--builders", options.builders), ("--evaluators", options.evaluators)]
    more = [word for name, n in counts if n is not None for word in (name, str(n))]
    seconds = options.device_seconds
    return (
        *(*options.kind_words, *window, *more),
        *(["--device", options.device] if options.device else []),
        *(["--wait"] if options.wait else []),
        *(["--device-seconds", f"{seconds:g}"] if seconds is not None else []),
        *("--lease", f"{options.lease_s:g}"),
    )
