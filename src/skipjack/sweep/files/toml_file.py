"""Sweep files in TOML, for users who want to write no code."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from skipjack.core import Expression, did_you_mean, metrics_by_identifier
from skipjack.errors import ExpressionError, MalformedError, UsageError
from skipjack.reading import parse_toml
from skipjack.search import Run, SearcherInterface, check_name
from skipjack.search import names as project_searchers
from skipjack.search.load import Bisect, FindUpperBound
from skipjack.search.scripted import CartesianProduct, Composer, GreedyStepper, Overlay, Step
from skipjack.sweep.files.sweep_file import (
    ALL,
    IsValid,
    Scalar,
    SweepFile,
    check_parameter_names,
    check_values,
    expand,
    location,
)

# The [search] table of a TOML file: a searcher by name, with functions as expressions.
#
# ``predicate`` is an expression over metrics of a run, such as ``p99_ms <= 15``; characters of
# names other than letters and digits are written ``_``. Step's ``update`` is an expression in
# ``x``. GreedyStepper's ``predicate`` compares a run with the best so far, as in
# ``rate > old_rate``.

SCRIPTED: dict[str, type[SearcherInterface]] = {
    "step": Step,
    "bisect": Bisect,
    "greedy_stepper": GreedyStepper,
    "cartesian_product": CartesianProduct,
    "find_upper_bound": FindUpperBound,
    "overlay": Overlay,
    "composer": Composer,
}
_FOR_PROJECT = ("budget", "seed", "seconds")
"""Keys for the searchers of the project, which search the values of [parameters]."""

Factory = Callable[[], SearcherInterface]


def read_search(table: Mapping[str, Any], where: str) -> tuple[Factory | None, dict[str, Any]]:
    """A factory of the search if it is scripted; otherwise settings with the searcher's name."""
    name = table.get("searcher")
    if isinstance(name, str) and name in SCRIPTED:
        make_searcher(table, where)  # report errors now and not after the baseline's run
        return lambda: make_searcher(table, where), {}
    known = (ALL, *project_searchers(), *SCRIPTED)
    if not isinstance(name, str) or name.partition(":")[0] not in known:
        said = "has no key searcher" if name is None else f"has the unknown searcher {name!r}"
        hint = did_you_mean(str(name), known)
        raise UsageError(f"{where}: [search] {said}; the searchers are {', '.join(known)}{hint}")
    try:
        chosen = name if name == ALL else check_name(name)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None
    for key in table:
        if key not in ("searcher", *_FOR_PROJECT):
            hint = did_you_mean(key, _FOR_PROJECT)
            raise UsageError(
                f"{where}: [search] has an unknown key {key!r}; {name} takes "
                f"{', '.join(_FOR_PROJECT)}{hint}"
            )
    return None, {**table, "searcher": chosen}


def make_searcher(table: Mapping[str, Any], where: str) -> SearcherInterface:
    """Make a scripted searcher from its table."""
    kind = SCRIPTED.get(str(table.get("searcher")))
    if kind is None:
        raise UsageError(
            f"{where}: searcher must be one of {', '.join(SCRIPTED)}, not {table.get('searcher')!r}"
        )
    wanted = inspect.signature(kind).parameters
    given = {key: value for key, value in table.items() if key != "searcher"}
    for key in given:
        if key not in wanted:
            hint = did_you_mean(key, wanted)
            takes = ", ".join(wanted)
            raise UsageError(f"{where}: {table['searcher']} takes {takes}, not {key!r}{hint}")
    missing = [key for key, one in wanted.items() if one.default is one.empty and key not in given]
    if missing == ["timeout"]:
        given["timeout"] = None
    elif missing:
        raise UsageError(f"{where}: {table['searcher']} needs {', '.join(missing)}")
    arguments = {key: _argument(kind, key, value, where) for key, value in given.items()}
    try:
        return kind(**arguments)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error


def _argument(kind: type[SearcherInterface], key: str, value: Any, where: str) -> Any:
    if key in ("predicate", "update"):
        return _function(kind, key, value, where)
    if key == "subject" and isinstance(value, Mapping):
        return make_searcher(value, where)
    if key in ("searchers", "steppers") and isinstance(value, list):
        return [make_searcher(each, where) for each in value if isinstance(each, Mapping)]
    return value


def _function(kind: type[SearcherInterface], key: str, text: object, where: str) -> Any:
    if not isinstance(text, str):
        raise UsageError(f"{where}: {key} is {text!r}; write an expression in quotes")
    expression = Expression(text)
    if key == "update":
        return lambda x: expression.evaluate({"x": x})
    if kind is GreedyStepper:
        return lambda old, new: expression.holds(
            {
                **{f"old_{name}": value for name, value in _metrics_of(old).items()},
                **_metrics_of(new),
            }
        )
    return lambda run: expression.holds(_metrics_of(run))


def _metrics_of(run: Run) -> Mapping[str, Any]:
    """The metrics of a run, with names that an expression can use."""
    stats = run.stats if isinstance(run.stats, Mapping) else run.stats.data
    return metrics_by_identifier(stats)


# Sweep files in TOML, which need no code.
#
# ::
#
#     base = "base.json"
#     run_cmd = "./run.sh"
#     metric = "samples_per_second:max"
#     no_rebuild = ["streams"]
#     constraints = ["depth * audio_batch_size <= audio_buffer_num_lines"]
#
#     [parameters]
#     audio_batch_size = {powers = [128, 1024]}
#     depth = {range = [1, 3]}
#     streams = [1, 2, 4]
#
# All top-level keys but the last two are command-line options, written with underscores.

SETTINGS = (
    *("base", "system_id", "build_cmd", "run_cmd", "result", "metric", "require", "load"),
    *("searcher", "budget", "seconds", "seed", "repeats", "confirm", "screen", "baseline"),
    *("order", "run_timeout", "build_timeout", "build_jobs", "run_cores", "build_output"),
    *("quota", "nested", "no_check_keys", "cool_temp", "cool_timeout", "warm_up", "power_log"),
    "state",
)
"""Options of ``skipjack sweep`` that a file may set; the command line overrides them."""
_OWN = ("parameters", "no_rebuild", "build", "constraints", "search")
_LOAD = ("parameter", "from", "to")


def read_toml_file(path: Path, text: str, digest: str) -> SweepFile:
    """The file's parameters, rules, search and settings."""
    try:
        content = parse_toml(text, str(path))
    except MalformedError as error:
        raise UsageError(str(error)) from None
    lines = {name: _line_of(text, name) for name in content}
    for name in content:
        if name not in (*_OWN, *SETTINGS):
            hint = did_you_mean(name, (*_OWN, *SETTINGS))
            raise UsageError(
                f"{location(path, lines[name])}: unknown setting {name!r}"
                f"{hint or '; parameters to sweep belong in [parameters]'}"
            )
    parameters, parameter_lines = _parameters(path, text, content.get("parameters", {}))
    where = location(path, lines.get("constraints"))
    constraints = _texts(content.get("constraints", []), "constraints", where)
    settings = {name: content[name] for name in SETTINGS if name in content}
    search = None
    if "search" in content:
        table = location(path, _line_of_table(text, "search") or lines["search"])
        search, said = read_search(_table(content["search"], "search", table), table)
        settings.update(said)
    if "load" in settings:
        settings["load"] = _load(settings["load"], location(path, lines["load"]))
    return SweepFile(
        path=path,
        parameters=parameters,
        no_rebuild=_no_rebuild(path, content, parameters, lines, searched=search is not None),
        is_valid=_all_hold(constraints, where) if constraints else None,
        search=search,
        digest=digest,
        lines=parameter_lines,
        settings=settings,
    )


def _parameters(
    path: Path, text: str, table: object
) -> tuple[dict[str, tuple[Scalar, ...]], dict[str, int]]:
    start = _line_of_table(text, "parameters")
    parameters: dict[str, tuple[Scalar, ...]] = {}
    lines: dict[str, int] = {}
    for name, values in _table(table, "parameters", location(path, start)).items():
        lines[name] = _line_of(text, name, start)
        where = location(path, lines[name])
        if isinstance(values, Mapping):
            values = expand(name, values, where)
        if not isinstance(values, list):
            raise UsageError(f"{where}: {name} is {values!r}; write a list of values")
        parameters[name] = check_values(name, values, where)
    return parameters, lines


def _no_rebuild(
    path: Path,
    content: Mapping[str, Any],
    parameters: Mapping[str, Any],
    lines: Mapping[str, int],
    *,
    searched: bool,
) -> tuple[str, ...] | None:
    """``no_rebuild``, or all parameters except those in ``build``."""
    said = [key for key in ("no_rebuild", "build") if key in content]
    if not said:
        return None
    where = location(path, lines[said[0]])
    if len(said) == 2:
        raise UsageError(f"{where}: no_rebuild and build exclude each other; write one of them")
    names = _texts(content[said[0]], said[0], where)
    if not searched:
        check_parameter_names(names, parameters, said[0], where)
    if said == ["build"]:
        return tuple(name for name in parameters if name not in names)
    return names


def _all_hold(constraints: Sequence[str], where: str) -> IsValid:
    try:
        expressions = [Expression(text) for text in constraints]
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error

    def holds(config: Mapping[str, Any]) -> bool:
        try:
            return all(expression.holds(config) for expression in expressions)
        except ExpressionError as error:
            raise UsageError(f"{where}: {error}") from error

    return holds


def _load(load: object, where: str) -> dict[str, Any]:
    """The table with the load parameter and its range, checked."""
    table = _table(load, "load", where)
    for key in table:
        if key not in _LOAD:
            hint = did_you_mean(key, _LOAD)
            raise UsageError(f"{where}: load has an unknown key {key!r}{hint}")
    numbers = [table.get(key) for key in ("from", "to")]
    whole = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool)]
    named = isinstance(table.get("parameter"), str)
    if not named or len(whole) < 2 or not 0 < whole[0] < whole[1]:
        raise UsageError(
            f'{where}: load must be like {{parameter = "server_target_qps", from = 1000, '
            "to = 9000}, with 0 < from < to"
        )
    return dict(table)


def _table(value: object, name: str, where: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise UsageError(f"{where}: {name} is {value!r}; write a table")


def _texts(value: object, name: str, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise UsageError(f"{where}: {name} is {value!r}; write a list of strings")


def _line_of(text: str, name: str, after: int = 0) -> int:
    """The line on which a key or table of that name begins; 0 if it is not found."""
    key = re.compile(rf"""\s*(\[\s*)?["']?{re.escape(name)}["']?\s*[=.\]]""")
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if n > after and key.match(line)), 0)


def _line_of_table(text: str, name: str) -> int:
    head = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]")
    return next((n for n, line in enumerate(text.splitlines(), 1) if head.match(line)), 0)
