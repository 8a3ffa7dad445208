"""The [search] table of a TOML file: a searcher by name, functions as expressions.

``predicate`` is an expression over what a run says, as ``p99_ms <= 15``; in names, what is neither
letter nor digit is written ``_``. Step's ``update`` is one in ``x``; GreedyStepper's ``predicate``
one over the new run and, with ``old_`` before the name, the best so far, as ``rate > old_rate``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from skipjack.core.expressions import Expression
from skipjack.core.naming import did_you_mean
from skipjack.core.objective import spelled
from skipjack.errors import UsageError
from skipjack.search import check_name
from skipjack.search import names as project_searchers
from skipjack.search.scripted import (
    Bisect,
    CartesianProduct,
    Composer,
    FindUpperBound,
    GreedyStepper,
    Overlay,
    Run,
    SearcherInterface,
    Step,
)
from skipjack.sweep.files.sweep_file import ALL

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
"""What may be said of the others; they search the values of [parameters]."""

Factory = Callable[[], SearcherInterface]


def read_search(table: Mapping[str, Any], where: str) -> tuple[Factory | None, dict[str, Any]]:
    """How to make the search, if it is a scripted one; otherwise the settings that say which."""
    name = table.get("searcher")
    if isinstance(name, str) and name in SCRIPTED:
        make(table, where)  # to complain now and not after the baseline's run
        return lambda: make(table, where), {}
    known = (ALL, *project_searchers(), *SCRIPTED)
    if not isinstance(name, str) or name.partition(":")[0] not in known:
        said = "does not say its searcher" if name is None else f"has no searcher {name!r}"
        hint = did_you_mean(str(name), known)
        raise UsageError(f"{where}: [search] {said}; there are {', '.join(known)}{hint}")
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


def make(table: Mapping[str, Any], where: str) -> SearcherInterface:
    """A scripted searcher with its arguments."""
    kind = SCRIPTED.get(str(table.get("searcher")))
    if kind is None:
        raise UsageError(
            f"{where}: a searcher in a search is one of {', '.join(SCRIPTED)}, "
            f"not {table.get('searcher')!r}"
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
        return make(value, where)
    if key in ("searchers", "steppers") and isinstance(value, list):
        return [make(each, where) for each in value if isinstance(each, Mapping)]
    return value


def _function(kind: type[SearcherInterface], key: str, text: object, where: str) -> Any:
    if not isinstance(text, str):
        raise UsageError(f"{where}: {key} is {text!r}; write an expression in quotes")
    expression = Expression(text)
    if key == "update":
        return lambda x: expression.evaluate({"x": x})
    if kind is GreedyStepper:
        return lambda old, new: expression.holds(
            {**{f"old_{name}": value for name, value in _said(old).items()}, **_said(new)}
        )
    return lambda run: expression.holds(_said(run))


def _said(run: Run) -> Mapping[str, Any]:
    """What a run said, under names that an expression can have."""
    stats = run.stats if isinstance(run.stats, Mapping) else run.stats.data
    return spelled(stats)
