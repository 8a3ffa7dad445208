"""Sweep files in TOML, for people who want no code.

::

    base = "base.json"
    run_cmd = "./run.sh"
    metric = "samples_per_second:max"
    no_rebuild = ["streams"]
    constraints = ["depth * audio_batch_size <= audio_buffer_num_lines"]

    [parameters]
    audio_batch_size = {powers = [128, 1024]}
    depth = {range = [1, 3]}
    streams = [1, 2, 4]

Everything at the top is an option of the command line by its name with underscores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skipjack.core.expressions import Expression
from skipjack.core.naming import did_you_mean
from skipjack.errors import ExpressionError, MalformedError, UsageError
from skipjack.reading import parse_toml
from skipjack.sweep.files.blame import place
from skipjack.sweep.files.sweep_file import IsValid, Scalar, SweepFile
from skipjack.sweep.files.toml_search import read_search
from skipjack.sweep.files.values import check_parameter_names, check_values, expand

SETTINGS = (
    *("base", "system_id", "build_cmd", "run_cmd", "result", "metric", "require", "load"),
    *("searcher", "budget", "seconds", "seed", "repeats", "confirm", "screen", "baseline"),
    *("order", "run_timeout", "build_timeout", "build_jobs", "run_cores", "build_output"),
    *("quota", "nested", "no_check_keys", "cool_temp", "cool_timeout", "warm_up", "power_log"),
    "state",
)
"""Options of ``skipjack sweep`` that may stand in a file; a given option is stronger."""
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
                f"{place(path, lines[name])}: there is no setting {name!r}"
                f"{hint or '; values to try go below [parameters]'}"
            )
    parameters, parameter_lines = _parameters(path, text, content.get("parameters", {}))
    where = place(path, lines.get("constraints"))
    constraints = _texts(content.get("constraints", []), "constraints", where)
    settings = {name: content[name] for name in SETTINGS if name in content}
    search = None
    if "search" in content:
        table = place(path, _line_of_table(text, "search") or lines["search"])
        search, said = read_search(_table(content["search"], "search", table), table)
        settings.update(said)
    if "load" in settings:
        settings["load"] = _load(settings["load"], place(path, lines["load"]))
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
    for name, values in _table(table, "parameters", place(path, start)).items():
        lines[name] = _line_of(text, name, start)
        where = place(path, lines[name])
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
    """``no_rebuild``, or all but ``build``: whichever list is the shorter one to write."""
    said = [key for key in ("no_rebuild", "build") if key in content]
    if not said:
        return None
    where = place(path, lines[said[0]])
    if len(said) == 2:
        raise UsageError(f"{where}: no_rebuild and build say the same thing; write one of them")
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
    """Which parameter is the load, and between which values its limit is looked for."""
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
            f'{where}: load must be as {{parameter = "server_target_qps", from = 1000, '
            "to = 9000}, with a lower end above zero"
        )
    return dict(table)


def _table(value: object, name: str, where: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping):
        return value
    raise UsageError(f"{where}: {name} is {value!r}; write a table")


def _texts(value: object, name: str, where: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return tuple(value)
    raise UsageError(f"{where}: {name} is {value!r}; write a list of texts")


def _line_of(text: str, name: str, after: int = 0) -> int:
    """The line on which a key or a table of that name begins; 0 where it is not found."""
    key = re.compile(rf"""\s*(\[\s*)?["']?{re.escape(name)}["']?\s*[=.\]]""")
    lines = text.splitlines()
    return next((n for n, line in enumerate(lines, 1) if n > after and key.match(line)), 0)


def _line_of_table(text: str, name: str) -> int:
    head = re.compile(rf"\s*\[\s*{re.escape(name)}\s*\]")
    return next((n for n, line in enumerate(text.splitlines(), 1) if head.match(line)), 0)
