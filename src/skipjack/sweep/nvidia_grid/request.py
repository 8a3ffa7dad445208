"""A sweep as grid.py's options describe it, its commands, and its dry run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.errors import UsageError
from skipjack.interop.loadgen import LOGS, WORKLOAD, GridResult, read_result, result_directory
from skipjack.search import Run, SearcherInterface, Stats, do_send
from skipjack.sweep.bench import Workload, build_part, workload_of
from skipjack.sweep.configs import (
    BaseConfig,
    benchmark_name,
    check_names,
    detect_system_id,
    is_allowed,
    read_base_config,
    read_config_tree,
    scenario_name,
)
from skipjack.sweep.files import SweepFile, Synthetic, read_sweep_file
from skipjack.sweep.session import MOST_POINTS, listed_points

# A sweep with grid.py's options, and the commands that it builds and runs.

PERFORMANCE = "--test_mode=PerformanceOnly"
_MAKE_BUILD = ("make", "generate_engines")
_MAKE_RUN = ("make", "run_harness")


@dataclass(frozen=True, slots=True)
class GridOptions:
    """The flags of grid.py by name, and those that Skipjack adds."""

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
    """Replaces ``make generate_engines``; the same arguments follow as separate words."""
    run_cmd: str | None = None
    """Replaces ``make run_harness``, likewise."""
    nested: bool = False
    run_timeout: float = 4 * 3600.0
    build_timeout: float = 12 * 3600.0
    """Seconds after which a command is ended: LoadGen waits for a lost answer without limit."""
    outputs: tuple[Path, ...] = ()
    """Files to which results are written; no build depends on them."""

    @property
    def extra_words(self) -> tuple[str, ...]:
        """The arguments in `extra_run_args`."""
        try:
            return tuple(shlex.split(self.extra_run_args))
        except ValueError as error:
            raise UsageError(f"--extra_run_args: {str(error).lower()}") from None


@dataclass(frozen=True, slots=True)
class GridRequest:
    """What to sweep.

    `benchmark` and `scenario` are as the user wrote them, and are passed to the harness so;
    directories have the canonical names.
    """

    benchmark: str
    scenario: str
    file: SweepFile
    base: BaseConfig
    options: GridOptions

    def result_directory(self, point: Mapping[str, Any]) -> Path:
        """The directory for the logs of a point."""
        names = benchmark_name(self.benchmark), scenario_name(self.scenario)
        return result_directory(self.options.logs, self.base.system_id, *names, point)

    def cached(self, point: Mapping[str, Any]) -> GridResult | None:
        """The result of an earlier run of the point, if such results may be used."""
        if not self.options.use_cached:
            return None
        found = read_result(self.result_directory(point), point)
        # A result that grid.py wrote does not record its base config and commands.
        if found is None or found.stats.get(WORKLOAD) in (None, self.workload.digest):
            return found
        return None

    @property
    def workload(self) -> Workload:
        """The workload, which is the same for all points."""
        return workload_of(
            f"grid_{self.file.name}",
            dict(self.base.config),
            {"build": self.build_argv(""), "run": self.run_argv("", "")},
            Path.cwd(),
            {"system": self.base.system_id},
        )

    def config_file(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """A whole config in the harness's format: as the entry of this system."""
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
        """The command that runs the point and writes its logs to `log_dir`."""
        words = self.run_words(config_file)
        place = (f"LOG_DIR={log_dir}",)
        return _argv(self.options.run_cmd, _MAKE_RUN, place, words, shlex.join(words))

    def build_template(self) -> tuple[str, ...]:
        """`build_argv` of any point, with placeholders.

        RUN_ARGS is one of them, because its words can be quoted only once they are known.
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
    """Read the file and the base config, and check everything that grid.py checks."""
    options = options or GridOptions()
    scenario_name(scenario)
    for name in ("temp_timeout", "cool_temp"):
        if getattr(options, name) < 0:
            raise UsageError(f"--{name} is {getattr(options, name)}; it must be 0 or more")
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
    """The words of a command. `make` passes RUN_ARGS to a shell, so they are quoted there."""
    if own is None:
        return (*usual, *place, f"RUN_ARGS={run_args}")
    try:
        return (*shlex.split(own), *place, *words)
    except ValueError as error:
        raise UsageError(f"command {own!r}: {str(error).lower()}") from None


# The dry run of grid.py: a line for each step, then statistics.

MARK = "DRY-RUN:"
_CONFIG_FILE = "CONFIG.json"
"""A placeholder for the temporary file of a run."""


@dataclass(slots=True)
class GridStatistics:
    """Counts of builds and runs, as grid.py prints them."""

    builds: int = 0
    cached_builds: int = 0
    runs: int = 0
    cached_runs: int = 0

    def __str__(self) -> str:
        return (
            f"builds={self.builds}, cached_builds={self.cached_builds}, "
            f"runs={self.runs}, cached_runs={self.cached_runs}"
        )


def dry_run(request: GridRequest) -> Iterator[str]:
    """The lines to print. Nothing is built, run or written; old results are read."""
    session = _Session(request)
    searcher = request.file.search() if request.file.search else None
    if searcher is None or not searcher.is_dynamic:
        for point in listed_points(request.file, searcher, "fewest-builds"):
            yield from session.take(point)
    elif request.file.synthetic is not None:
        yield f"{MARK} the search depends on results; it is simulated with META_get_synthetic"
        yield from _simulated(session, searcher, request.file.synthetic)
    else:
        yield (
            f"{MARK} the search depends on results, so its points are not known in advance; "
            "define META_get_synthetic to see it simulated"
        )
    yield str(session.statistics)


def _simulated(
    session: _Session, searcher: SearcherInterface, synthetic: Synthetic
) -> Iterator[str]:
    points = searcher.generate()
    term = do_send(points)
    for _ in range(MOST_POINTS):
        if term is None:
            return
        point = Config.of(term)
        yield from session.take(point)
        term = do_send(points, Run(dict(point), session.answer(point, synthetic)))
    raise UsageError(f"{session.path}: the search did not end after {MOST_POINTS} points")


class _Session:
    """The state of grid.py's loop: the last point run, whose engine is in place."""

    def __init__(self, request: GridRequest) -> None:
        self._request = request
        self._last: Mapping[str, Any] | None = None
        self._allowed = False
        self._cached: Mapping[str, Any] | None = None
        self.statistics = GridStatistics()
        self.path = request.file.path

    def take(self, point: Config) -> Iterator[str]:
        """The lines about a point."""
        request = self._request
        self._cached = None
        self._allowed = is_allowed(request.file, request.base, point)
        if not self._allowed:
            yield f"{MARK} skip {point}: META_is_config_valid refuses it"
            return
        directory = request.result_directory(point)
        if cached := request.cached(point):
            self._cached = cached.stats
            self.statistics.cached_runs += 1
            yield f"{MARK} skip {point}: its result is in {directory}"
            return
        if self._needs_build(point):
            self.statistics.builds += 1
            if self._last is not None:
                yield from self._cool()
            yield f"{MARK} build {point}: {shlex.join(request.build_argv(_CONFIG_FILE))}"
        else:
            self.statistics.cached_builds += 1
        yield from self._cool()
        command = request.run_argv(_CONFIG_FILE, str(directory))
        yield f"{MARK} run {point}: {shlex.join(command)}"
        self.statistics.runs += 1
        self._last = point

    def answer(self, point: Config, synthetic: Synthetic) -> Stats:
        """The results of the last point, which the search is told."""
        if not self._allowed:
            return Stats({}, Status.INFEASIBLE)
        if self._cached is not None:
            invalid = self._cached.get("result_validity") != "VALID"
            return Stats(self._cached, Status.INVALID if invalid else Status.OK)
        return synthetic(dict(point))

    def _needs_build(self, point: Config) -> bool:
        if self._last is None:
            return not self._request.options.use_existing_engine
        free = self._request.file.no_rebuild
        return free is None or build_part(point, free) != build_part(self._last, free)

    def _cool(self) -> Iterator[str]:
        options = self._request.options
        if options.temp_timeout:
            yield f"{MARK} wait for {options.cool_temp} °C, {options.temp_timeout} s at most"
