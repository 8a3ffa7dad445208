"""Parameters that a user pins to values: the solvers that have such configs, and their subspaces.

Pins map a parameter to the text of its value: ``{"program": "two_pass"}``. A value that occurs in
one parameter only may be given by itself: ``{"two_pass": "true"}`` is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skipjack.core import Device, Pinnable, Problem, Space, Value, value_text
from skipjack.errors import SpaceError, UsageError, foreign_code
from skipjack.solvers.registry import building_solvers, solvers_for
from skipjack.solvers.solver import BuildingSolver

_SHOWN = 8
"""Most values of a parameter that an error message lists."""


def read_pins(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``["program=two_pass"]``; `UsageError` if a text is malformed or contradictory."""
    pins: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UsageError(f"{text!r} has no value; write a parameter and its value: rows=4")
        if pins.setdefault(name, value) != value:
            raise UsageError(f"{name} is pinned to {pins[name]} and to {value}; give one of them")
    return pins


def spelled_pins(settings: Mapping[str, Value]) -> dict[str, str]:
    """Pins of parameter values, sorted by name."""
    return {name: value_text(settings[name]) for name in sorted(settings)}


def pinned_space(space: Space, pins: Mapping[str, str]) -> Space:
    """The subspace with these values; `SpaceError` if it is empty."""
    if not pins:
        return space
    if not isinstance(space, Pinnable):
        raise SpaceError("it has no parameters that can be pinned")
    choices, chosen = space.choices(), {}
    for name, text in pins.items():
        values = [value for value in choices.get(name, ()) if _is_spelled(value, text)]
        if not values:
            raise SpaceError(f"no config has {name}={text}")
        chosen[name] = values[0]
    return space.pinned(chosen)


def named_pins(
    problem: Problem, device: Device, pins: Mapping[str, str], solver: str | None = None
) -> dict[str, str]:
    """The pins with the parameter in place of a value that was given by itself."""
    if not pins:
        return {}
    return _normal(_spaces(problem, device, solver), pins)


def _normal(spaces: Mapping[str, Space], pins: Mapping[str, str]) -> dict[str, str]:
    """Pins by parameter, with values as `value_text` gives them, sorted by name."""
    choices: dict[str, list[Value]] = {}
    for space in spaces.values():
        for name, values in space.choices().items() if isinstance(space, Pinnable) else ():
            choices.setdefault(name, []).extend(values)
    found = dict[str, str]()
    for name, text in pins.items():
        owners = [one for one, values in choices.items() if name in map(value_text, values)]
        stands_for_one = name not in choices and text.lower() == "true" and len(owners) == 1
        setting, requested = (owners[0], name) if stands_for_one else (name, text)
        same = (value for value in choices.get(setting, ()) if _is_spelled(value, requested))
        value = next(map(value_text, same), requested)
        if found.setdefault(setting, value) != value:
            raise UsageError(f"{setting} is pinned to {found[setting]} and to {value}; give one")
    return dict(sorted(found.items()))


def _spaces(problem: Problem, device: Device, name: str | None) -> dict[str, Space]:
    """The spaces of all applicable solvers; those that are tuned by default come first."""
    others = [] if name else building_solvers(problem, device)
    able = {one.name: one for one in (*solvers_for(problem, device, name), *others)}
    with foreign_code(f"a solver asked about {problem.key}"):
        return {solver.name: solver.space(problem, device) for solver in able.values()}


def pinned_solvers(
    problem: Problem, device: Device, pins: Mapping[str, str], name: str | None = None
) -> list[BuildingSolver]:
    """The applicable solvers (or the one named) that have configs with these values.

    Those that are tuned by default come first. `UsageError` lists the values that exist.
    """
    racing = solvers_for(problem, device, name)
    if not pins:
        return racing
    spaces = _spaces(problem, device, name)
    pins = _normal(spaces, pins)
    others = [] if name else building_solvers(problem, device)
    able = {solver.name: solver for solver in (*racing, *others)}
    with foreign_code(f"a solver asked about {problem.key}"):
        found = [able[solver] for solver, space in spaces.items() if _has(space, pins)]
    if not found:
        raise UsageError(_complaint(problem, spaces, pins))
    return found


def _has(space: Space, pins: Mapping[str, str]) -> bool:
    try:
        pinned_space(space, pins)
    except SpaceError:
        return False
    return True


def _is_spelled(value: Value, text: str) -> bool:
    same = value_text(value)
    return same == text or (isinstance(value, bool) and same == text.lower())


def _complaint(problem: Problem, spaces: Mapping[str, Space], pins: Mapping[str, str]) -> str:
    """A sentence that lists the values that exist instead."""
    all_choices = {
        solver: space.choices() for solver, space in spaces.items() if isinstance(space, Pinnable)
    }
    requested = " and ".join(f"{name}={text}" for name, text in pins.items())
    message = f"no config of {problem.key} has {requested}"
    known = {name for choices in all_choices.values() for name in choices}
    unknown = [name for name in pins if name not in known]
    if unknown and not known:
        return f"{message}: {', '.join(spaces)} has no parameters that can be pinned"
    listings = []
    for solver, choices in all_choices.items():
        shown = choices if unknown else {n: v for n, v in choices.items() if n in pins}
        listed = ", ".join(f"{n} is {_values(v)}" for n, v in shown.items())
        listings.append(f"in {solver} {listed}" if listed else "")
    return f"{message}: {'; '.join(filter(None, listings))}"


def _values(values: Sequence[Value]) -> str:
    texts = [value_text(value) for value in values[:_SHOWN]]
    more = len(values) - len(texts)
    return "/".join(texts) + (f" and {more} others" if more else "")
