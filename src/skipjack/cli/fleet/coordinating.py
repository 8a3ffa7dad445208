"""A run's phases: workers are started where there is work, and coordinated until it is done."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from skipjack.cli.fleet.options import the_store
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.cli.fleet.kinds import Asked
    from skipjack.fleet.engine import Engine
    from skipjack.fleet.further_jobs import Further
    from skipjack.fleet.records import JobKind
    from skipjack.fleet.runs import RunRequest, RunSummary
    from skipjack.fleet.store.store import Store
    from skipjack.interrupt import Interrupt
    from skipjack.settings import Settings


class EngineName(StrEnum):
    """Where workers are."""

    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"


@dataclass(frozen=True, slots=True)
class Crew:
    """Which workers the options ask for."""

    engine: EngineName
    address: str | None
    """Of a Ray cluster."""
    builders: int | None
    """None: as many as are usual."""
    evaluators: int | None
    image: str = ""


def coordinate(request: RunRequest, asked: Asked, crew: Crew, json: bool) -> None:
    """Work through all phases of what was asked for, and complain about what is left."""
    from skipjack import plugins
    from skipjack.cli.fleet.kinds import phases
    from skipjack.fleet.records import JobKind
    from skipjack.fleet.states import State
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.report.fleet.summary import leftovers
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    with (
        watch_for_interrupt("giving all jobs back", terminate=True) as interrupt,
        the_store(give_up=lambda: interrupt.requested) as store,
    ):
        # Before workers start: a wrong name should fail at once.
        label = store.label(request.label).name
        request = with_devices(store, request)
        _check_place(request, crew)
        work = _Work(store, settings, crew, interrupt, json)
        try:
            for kind, further in phases(asked, store, label, settings, request.devices):
                request = replace(request, kind=kind)
                summary = work.phase(request, further)
                _say(summary, kind, further, json)
                if interrupt.requested:
                    break
            found = store.live(label, JobKind.FIND, request.devices)
            unlikely = found.get(State.NOT_APPLICABLE, 0)
        finally:
            work.close()
        concerned = request.devices or store.devices_of(label)
        stopped = [name for name in store.stopped_devices() if name in concerned]
        disabled = [one.name for one in store.registrations() if not one.enabled]
    packed = further if request.kind is JobKind.KERNELS else None
    unpacked = packed.left_out - unlikely if packed else 0
    if summary.interrupted:
        raise KeyboardInterrupt
    if complaint := leftovers(summary, request, stopped, unpacked, disabled):
        raise SkipjackError(complaint)


def with_devices(store: Store, request: RunRequest) -> RunRequest:
    """The request with the devices that it is about; `UsageError` if no job is for them."""
    there: Collection[str] = store.devices_of(request.label)
    if request.machine:
        there = store.devices_at(request.machine, request.label)
        request = replace(request, devices=request.devices or tuple(there))
    for name in request.devices:
        if name not in there:
            raise UsageError(
                f"label {request.label} has no jobs for {name}"
                f"{f' of {request.machine}' if request.machine else ''}: its jobs are for "
                f"{', '.join(sorted(there)) or 'no device'}"
            )
    return request


def _check_place(request: RunRequest, crew: Crew) -> None:
    """`UsageError` where all workers are on this machine, and another one is to evaluate."""
    from skipjack.fleet.host import machine_name
    from skipjack.fleet.states import Stage

    if crew.engine is not EngineName.LOCAL or Stage.EVALUATE not in request.stages:
        return
    if request.machine not in ("", machine_name()):
        raise UsageError(
            f"this machine is {machine_name()}, and jobs of {request.machine} are evaluated there: "
            "add --build to build them here, or use --engine ray"
        )


class _Work:
    """Phases one after the other, with the same workers; they start when there is work."""

    def __init__(
        self, store: Store, settings: Settings, crew: Crew, interrupt: Interrupt, json: bool
    ) -> None:
        self._store, self._settings, self._crew = store, settings, crew
        self._interrupt, self._json = interrupt, json
        self._engine: Engine | None = None

    def phase(self, request: RunRequest, further: Further | None) -> RunSummary:
        """Do the jobs of one kind."""
        from skipjack.cli.fleet.kinds import all_over
        from skipjack.fleet.coordinator import Coordinator
        from skipjack.fleet.runs import RunSummary
        from skipjack.report.fleet.progress import run_bars

        label, kind = request.label, request.kind
        counts = self._store.live(label, kind, request.devices)
        if further and not request.wait and all_over(counts):
            return RunSummary(counts, {}, 0, 0.0, False)
        if self._engine is None:
            self._engine = _engine(self._crew, request, self._settings)
            _note_image(self._store, label, self._engine)
        with run_bars(enabled=not self._json) as observe:
            watched = replace(request, observer=observe)
            return Coordinator(self._store, self._engine, watched).run(self._interrupt)

    def close(self) -> None:
        """Dismiss the workers."""
        if self._engine is not None:
            self._engine.close()


def _engine(crew: Crew, request: RunRequest, settings: Settings) -> Engine:
    """The engine, with workers for the stages that are wanted alone."""
    from skipjack.fleet.states import Stage

    builders = crew.builders if Stage.BUILD in request.stages else 0
    evaluators = crew.evaluators if Stage.EVALUATE in request.stages else 0
    if crew.engine is EngineName.RAY:
        from skipjack.fleet.engines.ray_engine import RayEngine

        return RayEngine(crew.address, settings, builders=builders, evaluators=evaluators)
    from skipjack.fleet.engines.local import LocalEngine

    return LocalEngine(
        settings,
        settings.build_workers if builders is None else builders,
        1 if evaluators is None else evaluators,
        image=crew.image,
    )


def _note_image(store: Store, label: str, engine: Engine) -> None:
    """Write down which image jobs run in, and say so if others ran in another."""
    from skipjack.fleet.engines.local import LocalEngine
    from skipjack.fleet.images.noting import note_image

    if isinstance(engine, LocalEngine) and engine.image:
        warning = note_image(store, label, engine.image)
        if warning:
            typer.echo(f"skipjack: {warning}", err=True)


def _say(summary: RunSummary, kind: JobKind, further: Further | None, json: bool) -> None:
    from json import dumps

    from skipjack.report.fleet.summary import print_summary, summary_json

    if json:
        typer.echo(dumps(summary_json(summary, kind, further)))
    else:
        print_summary(summary, kind, further)
