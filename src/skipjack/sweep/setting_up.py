"""From what a user says to what a sweep needs: options over the file's own settings, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skipjack.core.expressions import Expression
from skipjack.core.naming import did_you_mean
from skipjack.core.objective import Objective
from skipjack.core.study import Budget
from skipjack.errors import ExpressionError, MalformedError, UsageError
from skipjack.reading import parse_json
from skipjack.search import check_name
from skipjack.search.load import LoadRange
from skipjack.sweep.commands.command import Command
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.results import ResultReader
from skipjack.sweep.configs.base_config import BaseConfig, check_names, read_base_config
from skipjack.sweep.configs.system_id import detect_system_id
from skipjack.sweep.files.read import read_sweep_file
from skipjack.sweep.files.sweep_file import ALL, SweepFile
from skipjack.sweep.goals import default_objective, parse_objectives
from skipjack.sweep.load_goal import parse_load
from skipjack.sweep.options import SweepOptions

ORDERS = ("fewest-builds", "listed")
_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Heat:
    """What is waited for before a run."""

    cool_temp: float | None = None
    cool_timeout_s: float = 60.0
    warm_up: int = 0


@dataclass(frozen=True, slots=True)
class SweepSetup:
    """A sweep that could be started."""

    file: SweepFile
    base: BaseConfig
    options: SweepOptions
    spec: CommandSpec | None
    """How commands are run; its `state_dir` is as said, or empty. None: not all of it was said."""
    heat: Heat
    searcher: str | None
    seed: int
    load: LoadRange | None
    in_order: bool
    check_names: bool


def set_up(path: Path, given: Mapping[str, Any], outputs: tuple[Path, ...] = ()) -> SweepSetup:
    """Read the files and check everything that can be checked before anything is started.

    `outputs` are written when the sweep is over.
    """
    file = read_sweep_file(path)
    said = _Said(given, file)
    base = _base(said)
    file = _with_no_rebuild(file, said.texts("no_rebuild"))
    checked = not said.flag("no_check_keys")
    if checked:
        check_names(file, base)
    order = said.text("order") or ORDERS[0]
    if order not in ORDERS:
        raise UsageError(f"--order {order!r} is none of {' and '.join(ORDERS)}")
    requirements = said.texts("require")
    for text in requirements:
        try:
            Expression(text)
        except ExpressionError as error:
            raise UsageError(f"--require {text!r}: {error}") from None
    result = _result(said)
    load = parse_load(said.value("load"), file, base, checked=checked)
    screen = parse_settings(said.value("screen"))
    _check_screen(screen, file, base if checked else BaseConfig())
    searcher = said.text("searcher")
    if load and searcher:
        raise UsageError("--load is a search of its own; leave out --searcher")
    # Beside other parameters, the search for a load decides itself which runs are short.
    joint = load is not None and any(name != load.param for name in file.parameters)
    options = SweepOptions(
        objectives=_objectives(said, result, base, load, requirements),
        requirements=tuple(requirements),
        budget=Budget(said.whole("budget"), said.number("seconds")),
        repeats=_not_none(said.whole("repeats"), 1),
        confirm=_not_none(said.whole("confirm"), 2),
        screen={} if joint else screen,
        joint_screen=screen if joint else {},
        load=load.param if load else "",
        baseline=_not_none(said.value("baseline"), True),
    )
    return SweepSetup(
        file=file,
        base=base,
        options=options,
        spec=_spec(said, result, file, base, options, outputs),
        heat=Heat(
            said.number("cool_temp"),
            _not_none(said.number("cool_timeout"), 60.0),
            _not_none(said.whole("warm_up"), 0),
        ),
        searcher=searcher if searcher in (None, ALL) else check_name(searcher),
        seed=_not_none(said.whole("seed"), 0),
        load=load,
        in_order=order == "listed",
        check_names=checked,
    )


def _check_screen(screen: Mapping[str, Any], file: SweepFile, base: BaseConfig) -> None:
    """Settings of short runs must be settings, and none that is swept."""
    for name in screen:
        if name in file.parameters:
            raise UsageError(f"--screen sets {name}, which {file.where(name)} sweeps; leave it out")
        if base.where and not base.has(name):
            raise UsageError(
                f"--screen sets {name}, which is not in the base config {base.where}"
                f"{did_you_mean(name, base.config)}; --no-check-keys sets it all the same"
            )


def _base(said: _Said) -> BaseConfig:
    path, nested = said.path("base"), said.flag("nested")
    if path is None:
        if said.text("system_id"):
            raise UsageError("--system-id chooses an entry of a base config; give --base, too")
        return BaseConfig(nested=nested)
    return read_base_config(path, said.text("system_id") or detect_system_id, nested=nested)


def _objectives(
    said: _Said,
    result: ResultReader | None,
    base: BaseConfig,
    load: LoadRange | None,
    requirements: Sequence[str],
) -> tuple[Objective, ...]:
    metrics = said.texts("metric")
    if metrics and load:
        raise UsageError(f"with --load the largest {load.param} is wanted; leave out --metric")
    if metrics:
        return parse_objectives(metrics, requirements)
    if load:
        return (Objective(load.param, "max", tuple(requirements)),)
    if result is None:
        return ()
    found = default_objective(result.kind, base.config.get("scenario"), requirements)
    return (found,) if found else ()


def _result(said: _Said) -> ResultReader | None:
    metrics = [text.rpartition(":")[0] for text in said.texts("metric")]
    text = said.text("result")
    return ResultReader.parse(text, *metrics[:1]) if text else None


def _spec(
    said: _Said,
    result: ResultReader | None,
    file: SweepFile,
    base: BaseConfig,
    options: SweepOptions,
    outputs: tuple[Path, ...],
) -> CommandSpec | None:
    run, build, state = said.text("run_cmd"), said.text("build_cmd"), said.path("state")
    spec = CommandSpec(
        run=Command.parse(run, "--run-cmd") if run else Command("", ()),
        build=Command.parse(build, "--build-cmd") if build else None,
        result=result or ResultReader("exit"),
        workdir=Path.cwd(),
        state_dir=state.absolute() if state else Path(),
        base=base.config,
        no_rebuild=_needs_no_build(file, options),
        nested=base.nested,
        build_timeout_s=said.seconds("build_timeout", 7200.0),
        run_timeout_s=said.seconds("run_timeout", 3600.0),
        quota_bytes=int(_not_none(said.number("quota"), 20.0) * _GIB),
        build_jobs=_not_none(said.whole("build_jobs"), 1),
        run_cores=parse_cores(said.text("run_cores")),
        build_output=tuple(Path(path) for path in said.texts("build_output")),
        # A search of the file's own does not say beforehand what varies.
        parameters=None if file.search else (*file.parameters, *filter(None, (options.load,))),
        not_sources=(file.path, *outputs),
        power_log=said.path("power_log"),
    )
    return spec if run and result else None


def _needs_no_build(file: SweepFile, options: SweepOptions) -> tuple[str, ...] | None:
    """What the file says; a load never needs a build, also where all other parameters do.

    Nor do settings of short runs, which its search lays over points.
    """
    if not options.load:
        return file.no_rebuild
    short = (name for name in options.screen if name not in file.parameters)
    return tuple(dict.fromkeys((*(file.no_rebuild or ()), options.load, *short)))


class _Said:
    """Settings: what the command line says, else what the file says."""

    def __init__(self, given: Mapping[str, Any], file: SweepFile) -> None:
        self._given, self._file = given, file

    def value(self, name: str) -> Any:
        given = self._given.get(name)
        return self._file.settings.get(name) if given in (None, []) else given

    def _checked(self, name: str, kinds: type | tuple[type, ...], wanted: str) -> Any:
        value = self.value(name)
        if value is None or (isinstance(value, kinds) and not isinstance(value, bool)):
            return value
        raise UsageError(f"{self._place(name)} is {value!r}; write {wanted}")

    def text(self, name: str) -> str | None:
        text: str | None = self._checked(name, str, "a text")
        return text

    def texts(self, name: str) -> list[str]:
        """One text or several."""
        value = self.value(name)
        if value is None:
            return []
        values = list(value) if isinstance(value, list | tuple) else [value]
        return [str(one) for one in values]

    def number(self, name: str) -> float | None:
        """A number that is not negative."""
        value = self._checked(name, (int, float), "a number of 0 or more")
        if value is not None and value < 0:
            raise UsageError(f"{self._place(name)} is {value!r}; write a number of 0 or more")
        return None if value is None else float(value)

    def seconds(self, name: str, otherwise: float) -> float:
        """A time limit."""
        value = self.number(name)
        if value == 0:
            raise UsageError(f"{self._place(name)} is 0, so nothing would be run; give more")
        return otherwise if value is None else value

    def whole(self, name: str) -> int | None:
        number: int | None = self._checked(name, int, "a whole number")
        return number

    def flag(self, name: str) -> bool:
        return bool(self.value(name))

    def path(self, name: str) -> Path | None:
        """A path; one that the file names is beside the file."""
        given = self._given.get(name)
        if given is not None:
            return Path(given)
        named = self._file.settings.get(name)
        return None if named is None else self._file.path.parent / str(named)

    def _place(self, name: str) -> str:
        if self._given.get(name) in (None, []):
            return f"{self._file.path}: {name}"
        return f"--{name.replace('_', '-')}"


def parse_settings(value: object) -> dict[str, Any]:
    """``KEY=VALUE`` texts or a table; values are JSON where they read as JSON, else text."""
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
    """``0-3,6`` as numbers."""
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
            raise UsageError(f"--run-cores {text!r}: write numbers, as 0-3 or 0,2")
        cores += found
    return tuple(dict.fromkeys(cores))


def _with_no_rebuild(file: SweepFile, names: Sequence[str]) -> SweepFile:
    """Files without hooks can be told on the command line what needs no build."""
    listed = [name for text in names for name in text.split(",") if name]
    if not listed:
        return file
    if file.no_rebuild is not None:
        raise UsageError(f"{file.path} says itself what needs no rebuild; leave out --no-rebuild")
    unknown = [name for name in listed if file.parameters and name not in file.parameters]
    if unknown:
        known = ", ".join(file.parameters)
        raise UsageError(
            f"--no-rebuild {', '.join(unknown)} is no parameter of {file.path}; it has {known}"
        )
    return replace(file, no_rebuild=tuple(listed))


def _not_none(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value
