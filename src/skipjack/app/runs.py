"""``run``: the jobs of a label, built and evaluated here or on a cluster."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.app.configuration import EngineName, configured
from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet import machine_name
from skipjack.fleet.labels import FurtherJobs, further_jobs
from skipjack.fleet.model import DeviceTime, Engine, JobKind, JobStage, JobState
from skipjack.fleet.run import (
    LEASE_S,
    LINGER_S,
    BudgetedCoordinator,
    Coordinator,
    RunProgress,
    RunRequest,
    RunSummary,
)
from skipjack.fleet.store import Store, open_store
from skipjack.interrupt import Interrupt
from skipjack.settings import Settings

FIND_ALL, FIND_MISSING = 1, 3
"""MIOpen's find modes: rank all problems, or those that have no ranking yet."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Which jobs of a label to do, and by which workers."""

    label: str
    kind: JobKind = JobKind.TUNE
    hybrid: bool = False
    """For finds: reuse existing rankings."""
    fresh: bool = False
    """For finds and kernels: do finished jobs again."""
    build: bool = True
    evaluate: bool = True
    device: str | None = None
    """None for all devices that the label has jobs for."""
    machine: str = ""
    """Do only jobs for devices of this machine, which are evaluated there."""
    wait: bool = False
    """Wait until every job of the label has ended."""
    lease_s: float = LEASE_S
    linger_s: float = LINGER_S
    engine: EngineName = EngineName.LOCAL
    address: str | None = None
    """The address of a Ray cluster."""
    builders: int | None = None
    """None for the default number."""
    evaluators: int | None = None
    image: str = ""
    """Run workers in containers of this image."""
    device_seconds: float | None = None
    """Device time of all tuning jobs of the label together, in this run and all others; None: the
    jobs are done in order, each with all of its trials."""

    def __post_init__(self) -> None:
        if self.device_seconds is not None:
            self._check_device_seconds(self.device_seconds)
        if self.engine is not EngineName.RAY and self.address:
            raise UsageError("--address is for --engine ray")
        if self.image and self.engine is not EngineName.LOCAL:
            raise UsageError(
                "--image is for --engine local; skipjack fleet up --image starts Ray in containers"
            )
        if self.engine is EngineName.SLURM and self.machine:
            raise UsageError(
                "--machine is not for --engine slurm, which chooses the nodes; give --device, and "
                "name nodes by --sbatch=--nodelist=NAME"
            )
        if self.builders == 0 and self.evaluators == 0:
            raise UsageError(
                "--builders 0 and --evaluators 0 leave nothing to do; leave one of them out"
            )

    def _check_device_seconds(self, seconds: float) -> None:
        if not 0.0 < seconds < math.inf:
            raise UsageError(f"--device-seconds is {seconds:g}; give a finite number above 0")
        if self.kind is not JobKind.TUNE:
            option = "--find" if self.kind is JobKind.FIND else "--kernel-cache"
            raise UsageError(
                f"--device-seconds divides time among tuning jobs; {option} does each job once, so "
                "give only one of them"
            )
        if self.wait:
            raise UsageError(
                "--wait waits until every job has ended, and --device-seconds ends before that; "
                "give only one of them"
            )

    @property
    def stages(self) -> tuple[JobStage, ...]:
        """The stages to do: those that were requested and have workers."""
        idle = {JobStage.BUILD: self.builders == 0, JobStage.EVALUATE: self.evaluators == 0}
        requested = {JobStage.BUILD: self.build, JobStage.EVALUATE: self.evaluate}
        if self.build == self.evaluate:  # not requested explicitly: by the numbers of workers
            here = self.engine is not EngineName.SLURM
            requested = {stage: not (here and idle[stage]) for stage in requested}
        return tuple(stage for stage, wanted in requested.items() if wanted)

    @property
    def request(self) -> RunRequest:
        """The coordinator's request; the devices of a machine are not known yet."""
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
        """The options of a run that continues the same jobs, without starting over."""
        if self.kind is JobKind.FIND:
            return ["--find", "--find-mode", str(FIND_MISSING if self.hybrid else FIND_ALL)]
        return ["--kernel-cache"] if self.kind is JobKind.KERNELS else []


@dataclass(frozen=True, slots=True)
class RunPhase:
    """The jobs of one kind, and their results."""

    kind: JobKind
    summary: RunSummary
    further: FurtherJobs | None = None
    """The jobs that were made of those of the phase before."""
    device_time: DeviceTime | None = None
    """The label's device time, if it has a budget."""


@dataclass(frozen=True, slots=True)
class RunWarning:
    """A warning for the user; the run continues."""

    sentence: str


RunEvent = RunProgress | RunPhase | RunWarning
RunObserver = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did, kind by kind, and why jobs may be left."""

    request: RunRequest
    """The request, with the kind and the devices of the last phase."""
    phases: tuple[RunPhase, ...]
    stopped: tuple[str, ...] = ()
    """Aborted devices that its jobs are for."""
    disabled: tuple[str, ...] = ()
    """Machines that are disabled in the registry."""
    unpacked: int = 0
    """How many problems have no kernel to pack."""

    @property
    def summary(self) -> RunSummary:
        """The summary of the last phase."""
        return self.phases[-1].summary

    @property
    def interrupted(self) -> bool:
        """Whether it ended before all was done."""
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
    """Do the jobs of a label; running again continues.

    `observe` gets the progress about once a second, and each phase when it has ended. A request of
    `interrupt` ends the run, and its jobs are returned to the queue. `start_engine` starts the
    workers, as soon as there is work for them.
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
    # Before workers start, so that a wrong name fails at once.
    label = store.labels.get(options.label).name
    request = with_devices(store, options.request)
    _check_place(request, options)
    if options.device_seconds is not None:
        _set_budget(store, label, options.device_seconds, observe)
    work = _Work(store, settings, options, start_engine, observe, interrupt)
    done: list[RunPhase] = []
    further: FurtherJobs | None = None
    try:
        for kind, further in run_phases(options, store, settings, request.devices):
            request = replace(request, kind=kind)
            summary = work.phase(request, further)
            limited = options.device_seconds is not None
            time = store.labels.device_time(label) if limited else None
            done.append(RunPhase(kind, summary, further, time))
            observe(done[-1])
            if interrupt.requested:
                break
    finally:
        work.close()
    unlikely = store.queue.live(label, JobKind.FIND, request.devices).get(
        JobState.NOT_APPLICABLE, 0
    )
    packed = further if request.kind is JobKind.KERNELS else None
    concerned = request.devices or store.labels.devices(label)
    return RunResult(
        request,
        tuple(done),
        tuple(name for name in store.machines.stopped_devices() if name in concerned),
        tuple(one.name for one in store.registrations.all() if not one.enabled),
        packed.left_out - unlikely if packed else 0,
    )


def with_devices(store: Store, request: RunRequest) -> RunRequest:
    """The request with its devices; `UsageError` if no job is for them."""
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


def _set_budget(store: Store, label: str, seconds: float, observe: RunObserver) -> None:
    """Limit the label's device time; `UsageError` if it has no jobs for it."""
    if not store.labels.set_device_seconds(label, seconds):
        raise UsageError(
            f"label {label} has no tuning jobs to divide device-seconds among; skipjack load -l "
            f"{label} makes some"
        )
    time = store.labels.device_time(label)
    if not time.left_s:
        observe(
            RunWarning(
                f"the jobs of {label} have used {time.used_s:,.1f} device-seconds, so that nothing "
                f"is left of {seconds:,g}; a larger number continues"
            )
        )


def _check_place(request: RunRequest, options: RunOptions) -> None:
    """`UsageError` if all workers are on this machine and another one is to evaluate."""
    if options.engine is not EngineName.LOCAL or JobStage.EVALUATE not in request.stages:
        return
    if request.machine not in ("", machine_name()):
        raise UsageError(
            f"this machine is {machine_name()}, but jobs of {request.machine} are evaluated there; "
            "add --build to build them here, or use --engine ray"
        )


def run_phases(
    options: RunOptions, store: Store, settings: Settings, devices: Sequence[str]
) -> Iterator[tuple[JobKind, FurtherJobs | None]]:
    """The kinds of jobs to do in order, each with the jobs that were just made for it.

    They are for these devices, or for all.
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
    """Runs phases in order with the same workers, which start when there is work."""

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

    def phase(self, request: RunRequest, further: FurtherJobs | None) -> RunSummary:
        """Do the jobs of one kind."""
        counts = self._store.queue.live(request.label, request.kind, request.devices)
        if further and not request.wait and _all_over(counts):
            return RunSummary(counts, {}, 0, 0.0, False)
        if self._engine is None:
            self._engine = self._start(self._options, self._settings)
            self._note_image(request.label, self._engine)
        watched = replace(request, observer=self._observe)
        limited = self._options.device_seconds is not None
        coordinator = BudgetedCoordinator if limited else Coordinator
        return coordinator(self._store.queue, self._engine, watched).run(self._interrupt)

    def _note_image(self, label: str, engine: Engine) -> None:
        """Record the image that jobs run in, and warn if others ran in another."""
        from skipjack.fleet.engines import LocalEngine
        from skipjack.fleet.images import note_image

        if isinstance(engine, LocalEngine) and engine.image:
            warning = note_image(self._store, label, engine.image)
            if warning:
                self._observe(RunWarning(warning))

    def close(self) -> None:
        """Stop the workers."""
        if self._engine is not None:
            self._engine.close()


def _all_over(counts: Mapping[JobState, int]) -> bool:
    """Whether no job is left, so that no worker need be started."""
    return all(state.over for state, count in counts.items() if count)


def engine_for(options: RunOptions, settings: Settings) -> Engine:
    """The engine, with workers only for the requested stages."""
    builders = options.builders if JobStage.BUILD in options.stages else 0
    evaluators = options.evaluators if JobStage.EVALUATE in options.stages else 0
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
