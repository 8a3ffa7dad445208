"""A sweep of commands, from start to end: its place on disk, its lock, its bench, its ledger."""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.interop.user_conf import user_conf_lines
from skipjack.ledger import Ledger
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.storage import FileLock, ensure_directory
from skipjack.sweep.code_files import code_digest, remember_code
from skipjack.sweep.commands.command import Command
from skipjack.sweep.commands.command_bench import CommandBench, CommandSpec
from skipjack.sweep.configs.system_id import gpu_names
from skipjack.sweep.heat.thermal import Thermal
from skipjack.sweep.history import History, Place
from skipjack.sweep.load_goal import LoadSearch, load_search
from skipjack.sweep.progress import SweepObserver
from skipjack.sweep.result import SweepResult
from skipjack.sweep.setting_up import SweepSetup
from skipjack.sweep.sweep import Lines, SweepRequest, no_lines, run_sweep
from skipjack.sweep.workload import Workload, workload_of

log = logging.getLogger(__name__)

SWEEPS = "sweeps"
"""Where builds and logs of sweeps are, below the user directory."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a sweep happens: which workload on which device, with its directory."""

    workload: Workload
    device_class: str
    device_instance: str
    state: Path


def site_of(setup: SweepSetup, settings: Settings) -> Site:
    """The workload of these commands here."""
    runs = setup.runs
    commands = {
        "run": Command.parse(runs.run_cmd, "--run-cmd").words if runs.run_cmd else (),
        "build": Command.parse(runs.build_cmd, "--build-cmd").words if runs.build_cmd else (),
    }
    result = f"{runs.result.kind}:{runs.result.where}" if runs.result else ""
    facts = {
        "result": result,
        "metric": runs.result.metric if runs.result and runs.result.kind == "regex" else "",
        "nested": setup.base.nested,
        "no_rebuild": _needs_no_build(setup),
        "cores": runs.run_cores,
        "heat": [setup.heat.cool_temp, setup.heat.warm_up, str(setup.heat.power_log or "")],
    }
    workdir, base = Path.cwd(), setup.base.config
    place = workload_of(setup.file.name, base, commands, workdir, facts)
    state = (runs.state or settings.user_dir / SWEEPS / f"{place.name}-{place.digest}").absolute()
    # Where builds lie depends on what is said, what was measured on the code as well.
    code = code_digest(workdir, state, (setup.file.path,))
    workload = workload_of(setup.file.name, base, commands, workdir, facts | {"code": code})
    here = cpu.detect()
    gpus = "+".join(gpu_names())
    device_class = f"{here.class_key}+{gpus}" if gpus else here.class_key
    return Site(workload, device_class, f"{device_class}:{here.serial}", state)


def run_commands(
    setup: SweepSetup,
    settings: Settings,
    observer: SweepObserver,
    stop: Callable[[], bool],
    *,
    start_over: bool = False,
    retry_failed: bool = False,
) -> SweepResult:
    """Run a sweep of commands here."""
    site = site_of(setup, settings)
    ensure_directory(site.state)
    remember_code(Path.cwd(), site.state, (setup.file.path,))
    with alone(settings.user_dir, Path.cwd()), Ledger.open(settings.user_dir) as ledger:
        bench = CommandBench(_spec(setup, site), stop, _thermal(setup, stop))
        with contextlib.closing(bench):
            if start_over:
                bench.forget_builds()
            request = SweepRequest(
                setup.file,
                setup.base,
                bench,
                site.workload,
                site.device_class,
                site.device_instance,
                replace(setup.options, observer=observer),
                setup.searcher,
                setup.seed,
                _load_search(setup),
                setup.in_order,
                check_names=setup.check_names,
                run_timeout_s=setup.runs.run_timeout_s,
                start_over=start_over,
                retry_failed=retry_failed,
                user_conf=_pasted(setup),
            )
            return run_sweep(request, ledger, stop)


def _pasted(setup: SweepSetup) -> Lines:
    """What a submitter pastes, where this is LoadGen."""
    reader = setup.runs.result
    return user_conf_lines if reader is not None and reader.kind == "loadgen" else no_lines


def past_runs(setup: SweepSetup, settings: Settings, ledger: Ledger) -> History:
    """What earlier sittings of this sweep measured."""
    site = site_of(setup, settings)
    return History(ledger, site.workload, Place(site.device_class, site.device_instance, "plan"))


@contextlib.contextmanager
def alone(user_dir: Path, workdir: Path) -> Iterator[None]:
    """Two sweeps in one directory would mix what they build there, and disturb each other."""
    name = hashlib.sha256(str(workdir).encode()).hexdigest()[:16]

    def waiting(message: str) -> None:
        log.warning("another sweep runs in this directory; waiting for it (%s)", message)

    lock = ensure_directory(user_dir / SWEEPS) / f"directory-{name}.lock"
    with FileLock(lock, on_wait=waiting):
        yield


def _needs_no_build(setup: SweepSetup) -> tuple[str, ...] | None:
    """What the file says; a load never needs a build, also where all other parameters do.

    Nor do settings of short runs, which its search lays over points.
    """
    free = setup.file.no_rebuild
    if setup.load is None:
        return free
    short = (name for name in setup.options.screen if name not in setup.file.parameters)
    return tuple(dict.fromkeys((*(free or ()), setup.load.parameter, *short)))


def _spec(setup: SweepSetup, site: Site) -> CommandSpec:
    runs = setup.runs
    if not runs.run_cmd:
        raise UsageError("say how to run the benchmark: --run-cmd './run.sh'")
    if runs.result is None:
        raise UsageError(
            "say where the result is: --result json:PATH, regex:PATTERN, loadgen:DIR or exit"
        )
    return CommandSpec(
        run=Command.parse(runs.run_cmd, "--run-cmd"),
        build=Command.parse(runs.build_cmd, "--build-cmd") if runs.build_cmd else None,
        result=runs.result,
        workdir=Path.cwd(),
        base=setup.base.config,
        no_rebuild=_needs_no_build(setup),
        nested=setup.base.nested,
        build_timeout_s=runs.build_timeout_s,
        run_timeout_s=runs.run_timeout_s,
        state_dir=site.state,
        quota_bytes=runs.quota_bytes,
        build_jobs=runs.build_jobs,
        run_cores=runs.run_cores,
        build_output=runs.build_output,
        parameters=_swept(setup),
        not_sources=(setup.file.path, *setup.outputs),
        power_log=setup.heat.power_log,
    )


def _thermal(setup: SweepSetup, stop: Callable[[], bool]) -> Thermal:
    heat = setup.heat
    return Thermal(
        heat.cool_temp,
        heat.cool_timeout_s if heat.cool_temp is not None else 0.0,
        warm_up_runs=heat.warm_up,
        stopped=stop,
    )


def _swept(setup: SweepSetup) -> tuple[str, ...] | None:
    """What varies; a search of the file's own does not say beforehand."""
    if setup.file.search is not None:
        return None
    load = (setup.load.parameter,) if setup.load else ()
    return (*setup.file.parameters, *load)


def _load_search(setup: SweepSetup) -> LoadSearch | None:
    if setup.load is None:
        return None
    trials = setup.options.budget.trials
    return load_search(setup.load, setup.file, setup.base, trials, setup.options.joint_screen)
