"""A sweep as grid.py is asked for it, and the commands by which it builds and runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.errors import UsageError
from skipjack.interop.grid_results import (
    LOGS,
    WORKLOAD,
    GridResult,
    read_result,
    result_directory,
)
from skipjack.sweep.configs.base_config import BaseConfig, check_names, read_base_config
from skipjack.sweep.configs.config_tree import read_config_tree
from skipjack.sweep.configs.names import benchmark_name, scenario_name
from skipjack.sweep.configs.system_id import detect_system_id
from skipjack.sweep.files.read import read_sweep_file
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.workload import Workload, workload_of

PERFORMANCE = "--test_mode=PerformanceOnly"
_MAKE_BUILD = ("make", "generate_engines")
_MAKE_RUN = ("make", "run_harness")


@dataclass(frozen=True, slots=True)
class GridOptions:
    """grid.py's flags by their names, and ours."""

    no_check_keys: bool = False
    temp_timeout: int = 60
    cool_temp: int = 50
    extra_run_args: str = ""
    use_cached: bool = False
    dry_run: bool = False
    use_existing_engine: bool = False
    noparse: bool = False
    verbose_stats: bool = False
    spoof_system_id: str | None = None
    norun: bool = False
    configs: Path = Path("configs")
    """A tree of base configs, or one file."""
    logs: Path = LOGS
    build_cmd: str | None = None
    """Instead of ``make generate_engines``; the same arguments follow as words of their own."""
    run_cmd: str | None = None
    """Instead of ``make run_harness``, likewise."""
    nested: bool = False
    run_timeout: float = 4 * 3600.0
    build_timeout: float = 12 * 3600.0
    """Seconds after which a command is ended; LoadGen waits for ever for an answer that is lost."""
    outputs: tuple[Path, ...] = ()
    """Where results are written, which no build depends on."""

    @property
    def extra_words(self) -> tuple[str, ...]:
        """`extra_run_args`, one argument each."""
        try:
            return tuple(shlex.split(self.extra_run_args))
        except ValueError as error:
            raise UsageError(f"--extra_run_args: {str(error).lower()}") from None


@dataclass(frozen=True, slots=True)
class GridRequest:
    """What to sweep. `benchmark` and `scenario` are as the user typed them: the harness is given
    these, while directories have the proper names."""

    benchmark: str
    scenario: str
    file: SweepFile
    base: BaseConfig
    options: GridOptions

    def result_directory(self, point: Mapping[str, Any]) -> Path:
        """Where the run of a point leaves its logs."""
        names = benchmark_name(self.benchmark), scenario_name(self.scenario)
        return result_directory(self.options.logs, self.base.system_id, *names, point)

    def cached(self, point: Mapping[str, Any]) -> GridResult | None:
        """The result of an earlier run of the point, where such may be used."""
        if not self.options.use_cached:
            return None
        found = read_result(self.result_directory(point), point)
        # One of grid.py's own says nothing of its base config and commands.
        if found is None or found.stats.get(WORKLOAD) in (None, self.workload.digest):
            return found
        return None

    @property
    def workload(self) -> Workload:
        """What is run, whatever the point."""
        return workload_of(
            f"grid_{self.file.name}",
            dict(self.base.config),
            {"build": self.build_argv(""), "run": self.run_argv("", "")},
            Path.cwd(),
            {"system": self.base.system_id},
        )

    def config_file(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A whole config in the form in which the harness reads it: as this system's entry."""
        return {
            self.base.system_id: dict(config),
            "default": {},
            "benchmark": benchmark_name(self.benchmark),
            "scenario": scenario_name(self.scenario),
        }

    def build_words(self, config_file: str) -> tuple[str, ...]:
        """The arguments of a build for the point in `config_file`."""
        return (*self._words(config_file), *self.options.extra_words)

    def run_words(self, config_file: str) -> tuple[str, ...]:
        """The arguments of a run, performance only."""
        return (*self._words(config_file), PERFORMANCE, *self.options.extra_words)

    def build_argv(self, config_file: str) -> tuple[str, ...]:
        """The command that builds for the point in `config_file`."""
        words = self.build_words(config_file)
        return _argv(self.options.build_cmd, _MAKE_BUILD, (), words, shlex.join(words))

    def run_argv(self, config_file: str, log_dir: str) -> tuple[str, ...]:
        """The command that runs it and leaves its logs in `log_dir`."""
        words = self.run_words(config_file)
        place = (f"LOG_DIR={log_dir}",)
        return _argv(self.options.run_cmd, _MAKE_RUN, place, words, shlex.join(words))

    def build_template(self) -> tuple[str, ...]:
        """`build_argv` of any point, with placeholders.

        RUN_ARGS is one of them: its words are quoted once they are known, and where they need it.
        """
        words = self.build_words("{grid_config}")
        return _argv(self.options.build_cmd, _MAKE_BUILD, (), words, "{build_args}")

    def run_template(self) -> tuple[str, ...]:
        """`run_argv` of any point, with placeholders."""
        words = self.run_words("{grid_config}")
        place = ("LOG_DIR={log_dir}",)
        return _argv(self.options.run_cmd, _MAKE_RUN, place, words, "{run_args}")

    def _words(self, config_file: str) -> tuple[str, ...]:
        return (
            f"--benchmarks={self.benchmark}",
            f"--scenarios={self.scenario}",
            f"--configs={config_file}",
        )


def make_request(
    benchmark: str, scenario: str, config: Path, options: GridOptions | None = None
) -> GridRequest:
    """Read the file and the base config, and check all that grid.py checks."""
    options = options or GridOptions()
    scenario_name(scenario)
    for name in ("temp_timeout", "cool_temp"):
        if getattr(options, name) < 0:
            raise UsageError(f"--{name} is {getattr(options, name)}; write 0 or more")
    _ = options.extra_words
    file = read_sweep_file(config)
    base = _base(benchmark, scenario, options)
    if not options.no_check_keys:
        check_names(file, base)
    return GridRequest(benchmark, scenario, file, base, options)


def _base(benchmark: str, scenario: str, options: GridOptions) -> BaseConfig:
    system_id = options.spoof_system_id or detect_system_id()
    if options.configs.is_file():
        return read_base_config(options.configs, system_id, nested=options.nested)
    return read_config_tree(options.configs, benchmark, scenario, system_id, nested=options.nested)


def _argv(
    own: str | None,
    usual: tuple[str, ...],
    place: tuple[str, ...],
    words: tuple[str, ...],
    run_args: str,
) -> tuple[str, ...]:
    """make hands RUN_ARGS to a shell: one text, quoted. A user's command gets words."""
    if own is None:
        return (*usual, *place, f"RUN_ARGS={run_args}")
    try:
        return (*shlex.split(own), *place, *words)
    except ValueError as error:
        raise UsageError(f"command {own!r}: {str(error).lower()}") from None
