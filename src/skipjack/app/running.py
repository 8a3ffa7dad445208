"""``run``: the jobs of a label, built and evaluated here, on a cluster or in Slurm's queue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.app.configuring import configured
from skipjack.app.engine_name import EngineName
from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet import further_jobs
from skipjack.fleet import slurm as batch
from skipjack.fleet.coordinator import Coordinator
from skipjack.fleet.engine import Engine
from skipjack.fleet.further_jobs import Further
from skipjack.fleet.host import machine_name
from skipjack.fleet.records import JobKind
from skipjack.fleet.runs import LEASE_S, LINGER_S, RunProgress, RunRequest, RunSummary
from skipjack.fleet.states import Stage, State
from skipjack.fleet.store import Store, open_store
from skipjack.interrupt import Interrupt
from skipjack.settings import Settings

FIND_ALL, FIND_MISSING = 1, 3
"""MIOpen's numbers for ranking everything, and for ranking what has no ranking yet."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Which jobs of a label are done, by which workers."""

    label: str
    kind: JobKind = JobKind.TUNE
    hybrid: bool = False
    """Finds: take rankings over that are there."""
    fresh: bool = False
    """Finds and kernels: do again what is done."""
    build: bool = True
    evaluate: bool = True
    device: str | None = None
    """None: all devices that the label has jobs for."""
    machine: str = ""
    """Only jobs for devices of this machine, evaluated there."""
    wait: bool = False
    """Stay until every job of the label is over."""
    lease_s: float = LEASE_S
    linger_s: float = LINGER_S
    engine: EngineName = EngineName.LOCAL
    address: str | None = None
    """Of a Ray cluster."""
    builders: int | None = None
    """None: as many as are usual."""
    evaluators: int | None = None
    image: str = ""
    """Workers run in containers of this image."""

    def __post_init__(self) -> None:
        if self.engine is not EngineName.RAY and self.address:
            raise UsageError("--address is for --engine ray")
        if self.image and self.engine is not EngineName.LOCAL:
            raise UsageError(
                "--image is for --engine local; skipjack fleet up --image starts Ray in containers"
            )
        if self.engine is EngineName.SLURM and self.machine:
            raise UsageError(
                "--machine is not for --engine slurm, which chooses the nodes; name a --device, "
                "and nodes as --sbatch=--nodelist=NAME"
            )
        if self.builders == 0 and self.evaluators == 0:
            raise UsageError(
                "without builders and evaluators nothing is done; leave one of them out"
            )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is to be done; of a stage that is to have no workers, nothing."""
        idle = {Stage.BUILD: self.builders == 0, Stage.EVALUATE: self.evaluators == 0}
        asked = {Stage.BUILD: self.build, Stage.EVALUATE: self.evaluate}
        if self.build == self.evaluate:  # nothing was said, so the workers say it
            here = self.engine is not EngineName.SLURM
            asked = {stage: not (here and idle[stage]) for stage in asked}
        return tuple(stage for stage, wanted in asked.items() if wanted)

    @property
    def request(self) -> RunRequest:
        """What a coordinator is asked for; the devices of a machine are not yet known."""
        return RunRequest(
            self.label,
            self.stages,
            self.wait,
            self.lease_s,
            self.linger_s,
            kind=self.kind,
            devices=(self.device,) if self.device else (),
            machine=self.machine,
        )

    @property
    def kind_words(self) -> list[str]:
        """The options for a run that goes on with the same jobs: it starts nothing over."""
        if self.kind is JobKind.FIND:
            return ["--find", "--find-mode", str(FIND_MISSING if self.hybrid else FIND_ALL)]
        return ["--kernel-cache"] if self.kind is JobKind.KERNELS else []


@dataclass(frozen=True, slots=True)
class RunPhase:
    """The jobs of one kind, and what became of them."""

    kind: JobKind
    summary: RunSummary
    further: Further | None = None
    """What was made of the jobs before."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """Something that a person should know, though the run goes on."""

    sentence: str


RunEvent = RunProgress | RunPhase | RunWarning
RunObserver = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did, kind by kind, and why something may be left."""

    request: RunRequest
    """With the kind of the last phase, and the devices that it was about."""
    phases: tuple[RunPhase, ...]
    stopped: tuple[str, ...] = ()
    """Devices of its jobs that were aborted."""
    disabled: tuple[str, ...] = ()
    """Machines that are disabled in the registry."""
    unpacked: int = 0
    """Problems without a kernel to pack."""

    @property
    def summary(self) -> RunSummary:
        """Of the last phase."""
        return self.phases[-1].summary

    @property
    def interrupted(self) -> bool:
        """Whether it was ended before all was done."""
        return self.summary.interrupted


StartEngine = Callable[[RunOptions, Settings], Engine]


def run(
    options: RunOptions,
    observe: RunObserver = lambda _: None,
    *,
    settings: Settings | None = None,
    store: Store | None = None,
    interrupt: Interrupt | None = None,
    start_engine: StartEngine | None = None,
) -> RunResult:
    """Work through the jobs of a label; running again continues.

    `observe` is told how far it is about once a second, and of each phase when it is over. A
    request of `interrupt` ends the run, and jobs that it holds are given back. `start_engine`
    starts the workers, as soon as there is work for them.
    """
    if options.engine is EngineName.SLURM:
        raise UsageError("a run in Slurm's queue is submitted: see submit_run")
    chosen, stop = configured(settings), interrupt or Interrupt()
    if store is not None:
        return _run(options, observe, chosen, store, stop, start_engine or engine_for)
    with open_store(settings=chosen, give_up=lambda: stop.requested) as opened:
        return _run(options, observe, chosen, opened, stop, start_engine or engine_for)


def _run(
    options: RunOptions,
    observe: RunObserver,
    settings: Settings,
    store: Store,
    interrupt: Interrupt,
    start_engine: StartEngine,
) -> RunResult:
    # Before workers start: a wrong name should fail at once.
    label = store.labels.get(options.label).name
    request = _with_devices(store, options.request)
    _check_place(request, options)
    work = _Work(store, settings, options, start_engine, observe, interrupt)
    done: list[RunPhase] = []
    further: Further | None = None
    try:
        for kind, further in _phases(options, store, settings, request.devices):
            request = replace(request, kind=kind)
            done.append(RunPhase(kind, work.phase(request, further), further))
            observe(done[-1])
            if interrupt.requested:
                break
    finally:
        work.close()
    unlikely = store.queue.live(label, JobKind.FIND, request.devices).get(State.NOT_APPLICABLE, 0)
    packed = further if request.kind is JobKind.KERNELS else None
    concerned = request.devices or store.labels.devices(label)
    return RunResult(
        request,
        tuple(done),
        tuple(name for name in store.machines.stopped_devices() if name in concerned),
        tuple(one.name for one in store.registrations.all() if not one.enabled),
        packed.left_out - unlikely if packed else 0,
    )


def _with_devices(store: Store, request: RunRequest) -> RunRequest:
    """The request with the devices that it is about; `UsageError` if no job is for them."""
    there: Collection[str] = store.labels.devices(request.label)
    if request.machine:
        there = store.machines.devices_at(request.machine, request.label)
        request = replace(request, devices=request.devices or tuple(there))
    for name in request.devices:
        if name not in there:
            raise UsageError(
                f"label {request.label} has no jobs for {name}"
                f"{f' of {request.machine}' if request.machine else ''}: its jobs are for "
                f"{', '.join(sorted(there)) or 'no device'}"
            )
    return request


def _check_place(request: RunRequest, options: RunOptions) -> None:
    """`UsageError` where all workers are on this machine, and another one is to evaluate."""
    if options.engine is not EngineName.LOCAL or Stage.EVALUATE not in request.stages:
        return
    if request.machine not in ("", machine_name()):
        raise UsageError(
            f"this machine is {machine_name()}, and jobs of {request.machine} are evaluated there: "
            "add --build to build them here, or use --engine ray"
        )


def _phases(
    options: RunOptions, store: Store, settings: Settings, devices: Sequence[str]
) -> Iterator[tuple[JobKind, Further | None]]:
    """The kinds of jobs to do one after the other, each with what was made of its jobs just now.

    For these devices, or for all.
    """
    label, fresh = options.label, options.fresh
    if options.kind is JobKind.TUNE:
        yield JobKind.TUNE, None
    elif options.kind is JobKind.FIND:
        bank = Bank.open(settings.user_dir) if options.hybrid else None
        made = further_jobs.make_finds(store, label, fresh=fresh, hybrid=bank, devices=devices)
        yield JobKind.FIND, made
    else:
        searches = further_jobs.make_searches(store, label, devices=devices)
        if searches.problems:
            yield JobKind.FIND, searches
        made = further_jobs.make_kernels(store, label, fresh=fresh, devices=devices)
        yield JobKind.KERNELS, made


class _Work:
    """Phases one after the other, with the same workers; they start when there is work."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        options: RunOptions,
        start_engine: StartEngine,
        observe: RunObserver,
        interrupt: Interrupt,
    ) -> None:
        self._store, self._settings, self._options = store, settings, options
        self._start, self._observe, self._interrupt = start_engine, observe, interrupt
        self._engine: Engine | None = None

    def phase(self, request: RunRequest, further: Further | None) -> RunSummary:
        """Do the jobs of one kind."""
        counts = self._store.queue.live(request.label, request.kind, request.devices)
        if further and not request.wait and _all_over(counts):
            return RunSummary(counts, {}, 0, 0.0, False)
        if self._engine is None:
            self._engine = self._start(self._options, self._settings)
            self._note_image(request.label, self._engine)
        watched = replace(request, observer=self._observe)
        return Coordinator(self._store.queue, self._engine, watched).run(self._interrupt)

    def _note_image(self, label: str, engine: Engine) -> None:
        """Write down which image jobs run in, and say so if others ran in another."""
        from skipjack.fleet.engines import LocalEngine
        from skipjack.fleet.images.noting import note_image

        if isinstance(engine, LocalEngine) and engine.image:
            warning = note_image(self._store, label, engine.image)
            if warning:
                self._observe(RunWarning(warning))

    def close(self) -> None:
        """Dismiss the workers."""
        if self._engine is not None:
            self._engine.close()


def _all_over(counts: Mapping[State, int]) -> bool:
    """Whether no job is left to do, so that no worker need be started."""
    return all(state.over for state, count in counts.items() if count)


def engine_for(options: RunOptions, settings: Settings) -> Engine:
    """The engine, with workers for the stages that are wanted alone."""
    builders = options.builders if Stage.BUILD in options.stages else 0
    evaluators = options.evaluators if Stage.EVALUATE in options.stages else 0
    if options.engine is EngineName.RAY:
        from skipjack.fleet.engines import RayEngine

        return RayEngine(options.address, settings, builders=builders, evaluators=evaluators)
    from skipjack.fleet.engines import LocalEngine

    return LocalEngine(
        settings,
        settings.build_workers if builders is None else builders,
        1 if evaluators is None else evaluators,
        image=options.image,
    )


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """What a run asks of Slurm."""

    nodes: int = 1
    gpus_per_node: int = 0
    time: str = "1:00:00"
    partition: str = ""
    account: str = ""
    qos: str = ""
    extra: tuple[str, ...] = ()
    """Further options of sbatch, as ``--constraint=a100``."""
    until_done: bool = False
    """Queue again while jobs are left."""


@dataclass(frozen=True, slots=True)
class QueuedRun:
    """A run in Slurm's queue, or the script that would have been put there."""

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
    """Put a run into Slurm's queue; `dry_run` makes the script alone."""
    asked = slurm or SlurmOptions()
    wanted = batch.SlurmRequest(
        options.label,
        nodes=asked.nodes,
        gpus_per_node=asked.gpus_per_node,
        time=asked.time,
        partition=asked.partition,
        account=asked.account,
        qos=asked.qos,
        extra=asked.extra,
        until_done=asked.until_done,
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
    """Make the jobs, for a run that begins elsewhere and later."""
    store.labels.get(options.label)  # a wrong name should fail now, not in the queue
    request = _with_devices(store, options.request)
    if not dry_run:
        for _ in _phases(options, store, settings, request.devices):
            pass


def _run_words(options: RunOptions) -> tuple[str, ...]:
    """The options of the run that Slurm starts."""
    both = options.build == options.evaluate
    window = [] if both else ["--build"] if options.build else ["--evaluate"]
    counts = [("--builders", options.builders), ("--evaluators", options.evaluators)]
    more = [word for name, n in counts if n is not None for word in (name, str(n))]
    return (
        *(*options.kind_words, *window, *more),
        *(["--device", options.device] if options.device else []),
        *(["--wait"] if options.wait else []),
        *("--lease", f"{options.lease_s:g}"),
    )
