"""Setup of a sweep: the user's options and the file's settings, combined and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skipjack.core import Budget, Expression, Objective, did_you_mean
from skipjack.errors import ExpressionError, MalformedError, UsageError
from skipjack.reading import parse_json
from skipjack.search import check_name
from skipjack.search.load import LoadRange
from skipjack.sweep.commands import CommandSpec, CommandTemplate, ResultReader
from skipjack.sweep.configs import BaseConfig, check_names, detect_system_id, read_base_config
from skipjack.sweep.engine import SweepOptions, default_objective, parse_load, parse_objectives
from skipjack.sweep.files import ALL, SweepFile, read_sweep_file

ORDERS = ("fewest-builds", "listed")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class ThermalOptions:
    """Cooling and warming up before runs."""

    cool_temp: float | None = None
    cool_timeout_s: float = 60.0
    warm_up: int = 0


@dataclass(frozen=True, slots=True)
class SweepSetup:
    """Everything that a sweep needs to start."""

    file: SweepFile
    base: BaseConfig
    options: SweepOptions
    spec: CommandSpec | None
    """The commands; `state_dir` may be empty. None: commands or result were not given."""
    thermal: ThermalOptions
    searcher: str | None
    seed: int
    load: LoadRange | None
    in_order: bool
    check_names: bool


def set_up(path: Path, explicit: Mapping[str, Any], outputs: tuple[Path, ...] = ()) -> SweepSetup:
    """Read the files and check everything that can be checked before a run.

    `outputs` are the files that the caller writes at the end of the sweep.
    """
    file = read_sweep_file(path)
    requested = _RequestedSettings(explicit, file)
    base = _base(requested)
    file = _with_no_rebuild(file, requested.texts("no_rebuild"))
    checked = not requested.flag("no_check_keys")
    if checked:
        check_names(file, base)
    order = requested.text("order") or ORDERS[0]
    if order not in ORDERS:
        raise UsageError(f"--order {order!r} is unknown; use {' or '.join(ORDERS)}")
    requirements = requested.texts("require")
    for text in requirements:
        try:
            Expression(text)
        except ExpressionError as error:
            raise UsageError(f"--require {text!r}: {error}") from None
    result = _result(requested)
    load = parse_load(requested.value("load"), file, base, checked=checked)
    screen = parse_settings(requested.value("screen"))
    _check_screen(screen, file, base if checked else BaseConfig())
    searcher = requested.text("searcher")
    if load and searcher:
        raise UsageError("--load chooses its own search; leave out --searcher")
    # If there are other parameters, the search for a load decides which runs are short.
    joint = load is not None and any(name != load.param for name in file.parameters)
    options = SweepOptions(
        objectives=_objectives(requested, result, base, load, requirements),
        requirements=tuple(requirements),
        budget=Budget(requested.whole("budget"), requested.number("seconds")),
        repeats=_not_none(requested.whole("repeats"), 1),
        confirm=_not_none(requested.whole("confirm"), 2),
        screen={} if joint else screen,
        joint_screen=screen if joint else {},
        load=load.param if load else "",
        baseline=_not_none(requested.value("baseline"), True),
    )
    return SweepSetup(
        file=file,
        base=base,
        options=options,
        spec=_spec(requested, result, file, base, options, outputs),
        thermal=ThermalOptions(
            requested.number("cool_temp"),
            _not_none(requested.number("cool_timeout"), 60.0),
            _not_none(requested.whole("warm_up"), 0),
        ),
        searcher=searcher if searcher in (None, ALL) else check_name(searcher),
        seed=_not_none(requested.whole("seed"), 0),
        load=load,
        in_order=order == "listed",
        check_names=checked,
    )


def _check_screen(screen: Mapping[str, Any], file: SweepFile, base: BaseConfig) -> None:
    """Settings of short runs must exist in the base config and must not be swept."""
    for name in screen:
        if name in file.parameters:
            raise UsageError(
                f"--screen sets {name}, which {file.where(name)} sweeps; leave it out of --screen"
            )
        if base.where and not base.has(name):
            raise UsageError(
                f"--screen sets {name}, which is not in the base config {base.where}"
                f"{did_you_mean(name, base.config)}; use --no-check-keys to set it nevertheless"
            )


def _base(requested: _RequestedSettings) -> BaseConfig:
    path, nested = requested.path("base"), requested.flag("nested")
    if path is None:
        if requested.text("system_id"):
            raise UsageError("--system-id selects an entry of a base config, so it needs --base")
        return BaseConfig(nested=nested)
    return read_base_config(path, requested.text("system_id") or detect_system_id, nested=nested)


def _objectives(
    requested: _RequestedSettings,
    result: ResultReader | None,
    base: BaseConfig,
    load: LoadRange | None,
    requirements: Sequence[str],
) -> tuple[Objective, ...]:
    metrics = requested.texts("metric")
    if metrics and load:
        raise UsageError(f"--load optimises {load.param} itself; leave out --metric")
    if metrics:
        return parse_objectives(metrics, requirements)
    if load:
        return (Objective(load.param, "max", tuple(requirements)),)
    if result is None:
        return ()
    found = default_objective(result.kind, base.config.get("scenario"), requirements)
    return (found,) if found else ()


def _result(requested: _RequestedSettings) -> ResultReader | None:
    metrics = [text.rpartition(":")[0] for text in requested.texts("metric")]
    text = requested.text("result")
    return ResultReader.parse(text, *metrics[:1]) if text else None


def _spec(
    requested: _RequestedSettings,
    result: ResultReader | None,
    file: SweepFile,
    base: BaseConfig,
    options: SweepOptions,
    outputs: tuple[Path, ...],
) -> CommandSpec | None:
    run, build, state = (
        requested.text("run_cmd"),
        requested.text("build_cmd"),
        requested.path("state"),
    )
    spec = CommandSpec(
        run=CommandTemplate.parse(run, "--run-cmd") if run else CommandTemplate("", ()),
        build=CommandTemplate.parse(build, "--build-cmd") if build else None,
        result=result or ResultReader("exit"),
        workdir=Path.cwd(),
        state_dir=state.absolute() if state else Path(),
        base=base.config,
        no_rebuild=_needs_no_build(file, options),
        nested=base.nested,
        build_timeout_s=requested.seconds("build_timeout", 7200.0),
        run_timeout_s=requested.seconds("run_timeout", 3600.0),
        quota_bytes=int(_not_none(requested.number("quota"), 20.0) * _GIB),
        build_jobs=_not_none(requested.whole("build_jobs"), 1),
        run_cores=parse_cores(requested.text("run_cores")),
        build_output=tuple(Path(path) for path in requested.texts("build_output")),
        # A search that the file defines does not declare its parameters.
        parameters=None if file.search else (*file.parameters, *filter(None, (options.load,))),
        not_sources=(file.path, *outputs),
        power_log=requested.path("power_log"),
    )
    return spec if run and result else None


def _needs_no_build(file: SweepFile, options: SweepOptions) -> tuple[str, ...] | None:
    """The file's `no_rebuild`, extended in the search for a load.

    Neither a load nor the settings of short runs ever need a new build.
    """
    if not options.load:
        return file.no_rebuild
    short = (name for name in options.screen if name not in file.parameters)
    return tuple(dict.fromkeys((*(file.no_rebuild or ()), options.load, *short)))


class _RequestedSettings:
    """Settings by name: from the command line, otherwise from the file."""

    def __init__(self, explicit: Mapping[str, Any], file: SweepFile) -> None:
        self._explicit, self._file = explicit, file

    def value(self, name: str) -> Any:
        explicit = self._explicit.get(name)
        return self._file.settings.get(name) if explicit in (None, []) else explicit

    def _checked(self, name: str, kinds: type | tuple[type, ...], wanted: str) -> Any:
        value = self.value(name)
        if value is None or (isinstance(value, kinds) and not isinstance(value, bool)):
            return value
        raise UsageError(f"{self._location(name)} is {value!r}; it must be {wanted}")

    def text(self, name: str) -> str | None:
        text: str | None = self._checked(name, str, "a string")
        return text

    def texts(self, name: str) -> list[str]:
        """One value or a list, as strings."""
        value = self.value(name)
        if value is None:
            return []
        values = list(value) if isinstance(value, list | tuple) else [value]
        return [str(one) for one in values]

    def number(self, name: str) -> float | None:
        """A number that must not be negative."""
        value = self._checked(name, (int, float), "a number, 0 or more")
        if value is not None and value < 0:
            raise UsageError(f"{self._location(name)} is {value!r}; it must be 0 or more")
        return None if value is None else float(value)

    def seconds(self, name: str, otherwise: float) -> float:
        """A time limit, which must not be 0."""
        value = self.number(name)
        if value == 0:
            raise UsageError(
                f"{self._location(name)} is 0, so nothing could run; give more seconds"
            )
        return otherwise if value is None else value

    def whole(self, name: str) -> int | None:
        number: int | None = self._checked(name, int, "a whole number")
        return number

    def flag(self, name: str) -> bool:
        return bool(self.value(name))

    def path(self, name: str) -> Path | None:
        """A path; one from the file is relative to the file."""
        explicit = self._explicit.get(name)
        if explicit is not None:
            return Path(explicit)
        named = self._file.settings.get(name)
        return None if named is None else self._file.path.parent / str(named)

    def _location(self, name: str) -> str:
        if self._explicit.get(name) in (None, []):
            return f"{self._file.path}: {name}"
        return f"--{name.replace('_', '-')}"


def parse_settings(value: object) -> dict[str, Any]:
    """Settings from ``KEY=VALUE`` or a table; values are parsed as JSON if possible."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return dict(value)
    settings: dict[str, Any] = {}
    for text in value if isinstance(value, list | tuple) else [value]:
        for part in str(text).split(","):
            name, equals, raw = part.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"--screen {text!r}: write KEY=VALUE")
            try:
                settings[name.strip()] = parse_json(raw)
            except MalformedError:
                settings[name.strip()] = raw
    return settings


def parse_cores(text: str | None) -> tuple[int, ...]:
    """The core numbers in a text like ``0-3,6``."""
    cores: list[int] = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        first, dash, last = part.partition("-")
        try:
            found = range(int(first), int(last if dash else first) + 1)
        except ValueError:
            found = range(0)
        if not found:
            raise UsageError(f"--run-cores {text!r}: write core numbers, such as 0-3 or 0,2")
        cores += found
    return tuple(dict.fromkeys(cores))


def _with_no_rebuild(file: SweepFile, names: Sequence[str]) -> SweepFile:
    """The file with the names of --no-rebuild, which only files without their own may use."""
    listed = [name for text in names for name in text.split(",") if name]
    if not listed:
        return file
    if file.no_rebuild is not None:
        raise UsageError(f"{file.path} defines what needs no rebuild; leave out --no-rebuild")
    unknown = [name for name in listed if file.parameters and name not in file.parameters]
    if unknown:
        known = ", ".join(file.parameters)
        raise UsageError(
            f"--no-rebuild: {file.path} has no parameter {', '.join(unknown)}; it has {known}"
        )
    return replace(file, no_rebuild=tuple(listed))


def _not_none(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
