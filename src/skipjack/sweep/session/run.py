"""Running a sweep of commands: its directory, its lock, its benchmark and its ledger."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.interop.loadgen import user_conf_lines
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.storage import FileLock, ensure_directory
from skipjack.sweep.bench import Thermal, workload_of
from skipjack.sweep.commands import CommandBench, CommandSpec, code_digest, remember_code
from skipjack.sweep.configs import gpu_names
from skipjack.sweep.engine import (
    LoadSearch,
    RunHistory,
    SweepContext,
    SweepObserver,
    SweepRequest,
    SweepResult,
    load_search,
    run_sweep,
)
from skipjack.sweep.session.setup import SweepSetup, ThermalOptions

log = logging.getLogger(__name__)

SWEEPS = "sweeps"
"""The directory for builds and logs of sweeps, below the user directory."""


def context_and_spec(
    setup: SweepSetup, settings: Settings
) -> tuple[SweepContext, CommandSpec] | None:
    """The context of these commands, and their spec with its directory; None if not given."""
    spec, thermal, file = setup.spec, setup.thermal, setup.file
    if spec is None:
        return None
    commands = {"run": spec.run.words, "build": spec.build.words if spec.build else ()}
    facts = {
        "result": f"{spec.result.kind}:{spec.result.where}",
        "metric": spec.result.metric if spec.result.kind == "regex" else "",
        "nested": spec.nested,
        "no_rebuild": spec.no_rebuild,
        "cores": spec.run_cores,
        "heat": [thermal.cool_temp, thermal.warm_up, str(spec.power_log or "")],
    }
    said = workload_of(file.name, spec.base, commands, spec.workdir, facts)
    own = settings.user_dir / SWEEPS / f"{said.name}-{said.digest}"
    state = own.absolute() if spec.state_dir == Path() else spec.state_dir
    # The directory of builds depends on the options; results depend on the code as well.
    facts["code"] = code_digest(spec.workdir, state, (file.path,))
    workload = workload_of(file.name, spec.base, commands, spec.workdir, facts)
    here = cpu.detect()
    device_class = "+".join((here.class_key, *gpu_names()))
    context = SweepContext(workload, device_class, f"{device_class}:{here.serial}")
    return context, replace(spec, state_dir=state)


def run_commands(
    setup: SweepSetup,
    settings: Settings,
    observer: SweepObserver,
    stop: Callable[[], bool],
    *,
    start_over: bool = False,
    retry_failed: bool = False,
) -> SweepResult:
    found = context_and_spec(setup, settings)
    if found is None:
        raise UsageError(
            "--run-cmd and --result are needed: say how to run the benchmark, such as --run-cmd "
            "./run.sh, and where its result is: json:PATH, regex:PATTERN, loadgen:DIR or exit"
        )
    context, spec = found
    ensure_directory(spec.state_dir)
    remember_code(spec.workdir, spec.state_dir, (setup.file.path,))
    with directory_lock(settings.user_dir, spec.workdir), Ledger.open(settings.user_dir) as ledger:
        bench = CommandBench(spec, stop, _thermal(setup.thermal, stop))
        with contextlib.closing(bench):
            if start_over and bench.builder:
                bench.builder.forget()
            request = SweepRequest(
                setup.file,
                setup.base,
                bench,
                context,
                replace(setup.options, observer=observer),
                setup.searcher,
                setup.seed,
                _load_search(setup),
                setup.in_order,
                check_names=setup.check_names,
                run_timeout_s=spec.run_timeout_s or float("inf"),
                start_over=start_over,
                retry_failed=retry_failed,
            )
            if spec.result.kind == "loadgen":
                request = replace(request, user_conf=user_conf_lines)
            return run_sweep(request, ledger, stop)


def past_runs(setup: SweepSetup, settings: Settings, ledger: Ledger) -> RunHistory | None:
    """The runs of earlier sessions of this sweep; None if its commands were not given."""
    found = context_and_spec(setup, settings)
    return RunHistory(ledger, found[0]) if found else None


@contextlib.contextmanager
def directory_lock(user_dir: Path, workdir: Path) -> Iterator[None]:
    """Hold the lock of a directory: two sweeps in it would mix their builds."""
    name = hashlib.sha256(str(workdir).encode()).hexdigest()[:16]

    def waiting(message: str) -> None:
        log.warning(
            "another sweep is running in this directory; waiting for it to end (%s)", message
        )

    lock = ensure_directory(user_dir / SWEEPS) / f"directory-{name}.lock"
    with FileLock(lock, on_wait=waiting):
        yield


def _thermal(thermal: ThermalOptions, stop: Callable[[], bool]) -> Thermal:
    patience = thermal.cool_timeout_s if thermal.cool_temp is not None else 0.0
    return Thermal(thermal.cool_temp, patience, warm_up_runs=thermal.warm_up, stopped=stop)


def _load_search(setup: SweepSetup) -> LoadSearch | None:
    if setup.load is None:
        return None
    trials = setup.options.budget.trials
    return load_search(setup.load, setup.file, setup.base, trials, setup.options.joint_screen)
