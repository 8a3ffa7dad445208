"""A sweep of commands, from start to end: its place on disk, its lock, its bench, its ledger."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.interop.user_conf import user_conf_lines
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.storage import FileLock, ensure_directory
from skipjack.sweep.commands.code_files import code_digest, remember_code
from skipjack.sweep.commands.command_bench import CommandBench
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.configs.system_id import gpu_names
from skipjack.sweep.heat.thermal import Thermal
from skipjack.sweep.history import RunHistory, SweepPlace
from skipjack.sweep.load_goal import LoadSearch, load_search
from skipjack.sweep.progress import SweepObserver
from skipjack.sweep.result import SweepResult
from skipjack.sweep.setting_up import Heat, SweepSetup
from skipjack.sweep.sweep import SweepRequest, run_sweep
from skipjack.sweep.workload import workload_of

log = logging.getLogger(__name__)

SWEEPS = "sweeps"
"""Where builds and logs of sweeps are, below the user directory."""


def site_of(setup: SweepSetup, settings: Settings) -> tuple[SweepPlace, CommandSpec] | None:
    """What these commands are here, and they with their directory; None if they were not said."""
    spec, heat, file = setup.spec, setup.heat, setup.file
    if spec is None:
        return None
    commands = {"run": spec.run.words, "build": spec.build.words if spec.build else ()}
    facts = {
        "result": f"{spec.result.kind}:{spec.result.where}",
        "metric": spec.result.metric if spec.result.kind == "regex" else "",
        "nested": spec.nested,
        "no_rebuild": spec.no_rebuild,
        "cores": spec.run_cores,
        "heat": [heat.cool_temp, heat.warm_up, str(spec.power_log or "")],
    }
    said = workload_of(file.name, spec.base, commands, spec.workdir, facts)
    own = settings.user_dir / SWEEPS / f"{said.name}-{said.digest}"
    state = own.absolute() if spec.state_dir == Path() else spec.state_dir
    # Where builds lie depends on what is said, what was measured on the code as well.
    facts["code"] = code_digest(spec.workdir, state, (file.path,))
    workload = workload_of(file.name, spec.base, commands, spec.workdir, facts)
    here = cpu.detect()
    device_class = "+".join((here.class_key, *gpu_names()))
    place = SweepPlace(workload, device_class, f"{device_class}:{here.serial}")
    return place, replace(spec, state_dir=state)


def run_commands(
    setup: SweepSetup,
    settings: Settings,
    observer: SweepObserver,
    stop: Callable[[], bool],
    *,
    start_over: bool = False,
    retry_failed: bool = False,
) -> SweepResult:
    site = site_of(setup, settings)
    if site is None:
        raise UsageError(
            "say how to run the benchmark and where its result is: --run-cmd './run.sh' and "
            "--result json:PATH, regex:PATTERN, loadgen:DIR or exit"
        )
    place, spec = site
    ensure_directory(spec.state_dir)
    remember_code(spec.workdir, spec.state_dir, (setup.file.path,))
    with alone(settings.user_dir, spec.workdir), Ledger.open(settings.user_dir) as ledger:
        bench = CommandBench(spec, stop, _thermal(setup.heat, stop))
        with contextlib.closing(bench):
            if start_over and bench.builder:
                bench.builder.forget()
            request = SweepRequest(
                setup.file,
                setup.base,
                bench,
                place,
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
    """What earlier sittings of this sweep measured; None if it was not said how to run it."""
    site = site_of(setup, settings)
    return RunHistory(ledger, site[0]) if site else None


@contextlib.contextmanager
def alone(user_dir: Path, workdir: Path) -> Iterator[None]:
    """Two sweeps in one directory would mix what they build there, and disturb each other."""
    name = hashlib.sha256(str(workdir).encode()).hexdigest()[:16]

    def waiting(message: str) -> None:
        log.warning("another sweep runs in this directory; waiting for it (%s)", message)

    lock = ensure_directory(user_dir / SWEEPS) / f"directory-{name}.lock"
    with FileLock(lock, on_wait=waiting):
        yield


def _thermal(heat: Heat, stop: Callable[[], bool]) -> Thermal:
    patience = heat.cool_timeout_s if heat.cool_temp is not None else 0.0
    return Thermal(heat.cool_temp, patience, warm_up_runs=heat.warm_up, stopped=stop)


def _load_search(setup: SweepSetup) -> LoadSearch | None:
    if setup.load is None:
        return None
    trials = setup.options.budget.trials
    return load_search(setup.load, setup.file, setup.base, trials, setup.options.joint_screen)
