"""The largest load that holds, as a user asks for it: a parameter and two bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skipjack.core.config import Config
from skipjack.errors import SkipjackError, UsageError
from skipjack.search.load import Boundary, JointLoad, LoadRange
from skipjack.sweep.configs.base_config import BaseConfig, is_allowed
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.ordering import product_points

_STEP_DOWN, _STEPS = 0.03, 6
"""A load that does not hold when it is confirmed is lowered by so much, so many times."""
_MOST_SETTINGS = 1000
"""What is believed of settings is a matrix of them all."""


def parse_load(
    value: object, file: SweepFile, base: BaseConfig, *, checked: bool
) -> LoadRange | None:
    """``PARAMETER:LOW:HIGH``, or the table of a TOML file with parameter, from and to.

    Loads are whole numbers if both bounds are; 1.0 is none.
    """
    if value is None:
        return None
    if isinstance(value, Mapping):
        parts: list[Any] = [value.get("parameter"), value.get("from"), value.get("to")]
    else:
        parts = list(str(value).rsplit(":", 2))
    try:
        name, low, high = str(parts[0]), _number(parts[1]), _number(parts[2])
    except (ValueError, TypeError, IndexError):
        raise UsageError(
            f"--load {value!r}: write PARAMETER:LOW:HIGH, as server_target_qps:500:9000"
        ) from None
    if not 0 < low < high < float("inf"):
        raise UsageError(f"--load {value!r}: the bounds must be above 0, the lower one first")
    if checked and base.where and not base.has(name):
        raise UsageError(f"--load names {name}, which is not in the base config {base.where}")
    if name in file.parameters:
        raise UsageError(
            f"{file.where(name)} lists values of {name}, and --load searches it; leave one out"
        )
    if file.search is not None:
        raise UsageError(f"{file.path} has a search of its own; leave out --load")
    return LoadRange(name, low, high, isinstance(low, int) and isinstance(high, int))


LoadSearch = Boundary | JointLoad


def load_search(
    goal: LoadRange,
    file: SweepFile,
    base: BaseConfig,
    runs: int | None,
    screen: Mapping[str, Any],
) -> LoadSearch:
    """The search for the largest load: over it alone, or jointly with the file's parameters.

    `screen` are settings of short runs; the search makes its last runs without them.
    """
    others = {name: values for name, values in file.parameters.items() if name != goal.param}
    if not others:
        return Boundary(goal.param, goal.lower, goal.upper, runs=runs or 16, integer=goal.integer)
    free = file.no_rebuild
    count = math.prod(len(values) for values in others.values())
    if count > _MOST_SETTINGS:
        raise UsageError(
            f"{file.path}: {count} combinations are too many to search with a load; "
            f"{_MOST_SETTINGS} at most"
        )
    settings = [dict(point) for point in product_points(others, free)]
    allowed = [
        point for point in settings if is_allowed(file, base, {**point, goal.param: goal.lower})
    ]
    if not allowed:
        raise UsageError(f"{file.path}: the rule forbids each of {len(settings)} combinations")
    return JointLoad(
        goal,
        points=allowed,
        build_parameters=[name for name in others if free is None or name not in free],
        screen=screen,
        runs=runs,
    )


def load_candidates(search: LoadSearch) -> tuple[list[Config], str]:
    """What to confirm, and what is known: the load that should hold, then a little less each time.

    Empty, with the reason, if nothing holds.
    """
    try:
        best = dict(search.get_best())
    except SkipjackError as error:
        return [], str(error)
    if isinstance(search, JointLoad):
        load, name, said = search.answer.load, search.load.param, str(search.answer)
    else:
        load, name, said = search.answer, search.search_param, str(search.answer)
    limit, sure = float(load.value or load.low), float(load.safe or load.low)
    if load.verdict == "above":
        sure = limit  # all that was asked for holds
    # Between the limit, at which every other run fails, and what nearly always holds.
    first = math.sqrt(limit * sure)
    steps = [first]
    while steps[-1] > sure and len(steps) < _STEPS:
        steps.append(max(steps[-1] * (1 - _STEP_DOWN), sure))
    steps.append(steps[-1] * (1 - _STEP_DOWN))
    whole = isinstance(best[name], int)
    loads = dict.fromkeys(int(one) if whole else one for one in steps)
    return [Config.of({**best, name: one}) for one in loads], said


def _number(part: Any) -> float:
    if part is None or isinstance(part, bool):
        raise ValueError("no number")
    try:
        return part if isinstance(part, float) else int(part)
    except ValueError:
        return float(part)
