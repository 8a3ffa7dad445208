"""Settings that a user pins: which solvers have configs with them, and the parts of their spaces.

Pins are settings by name, their values as people spell them: ``{"program": "two_pass"}``. A value
that only one setting has may stand for it: ``{"two_pass": "true"}`` is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skipjack.core.config import Value, spelled
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Pinnable, Space
from skipjack.errors import SpaceError, UsageError, blaming
from skipjack.solvers.registry import building_solvers, solvers_for
from skipjack.solvers.solver import BuildingSolver

_SHOWN = 8
"""Most values of a setting that a complaint lists."""


def read_pins(texts: Iterable[str]) -> dict[str, str]:
    """``["program=two_pass"]`` as pins; `UsageError`."""
    pins: dict[str, str] = {}
    for text in texts:
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UsageError(f"{text!r} pins nothing; write a setting and its value: rows=4")
        if pins.setdefault(name, value) != value:
            raise UsageError(f"{name} is pinned to {pins[name]} and to {value}; give one of them")
    return pins


def spelled_pins(settings: Mapping[str, Value]) -> dict[str, str]:
    """Pins of settings as a program has them, sorted by name."""
    return {name: spelled(settings[name]) for name in sorted(settings)}


def pinned_space(space: Space, pins: Mapping[str, str]) -> Space:
    """The part of a space that has these settings; `SpaceError` if it has none."""
    if not pins:
        return space
    if not isinstance(space, Pinnable):
        raise SpaceError("it has no settings that can be pinned")
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
    """The pins with the names of settings, where a value stands for one."""
    if not pins:
        return {}
    return _normal(_spaces(problem, device, solver), pins)


def _normal(spaces: Mapping[str, Space], pins: Mapping[str, str]) -> dict[str, str]:
    """Pins by the names of settings, their values as `spelled` gives them, in order."""
    choices: dict[str, list[Value]] = {}
    for space in spaces.values():
        for name, values in space.choices().items() if isinstance(space, Pinnable) else ():
            choices.setdefault(name, []).extend(values)
    found = dict[str, str]()
    for name, text in pins.items():
        owners = [one for one, values in choices.items() if name in map(spelled, values)]
        stands_for_one = name not in choices and text.lower() == "true" and len(owners) == 1
        setting, wanted = (owners[0], name) if stands_for_one else (name, text)
        same = (value for value in choices.get(setting, ()) if _is_spelled(value, wanted))
        value = next(map(spelled, same), wanted)
        if found.setdefault(setting, value) != value:
            raise UsageError(f"{setting} is pinned to {found[setting]} and to {value}; give one")
    return dict(sorted(found.items()))


def _spaces(problem: Problem, device: Device, name: str | None) -> dict[str, Space]:
    """Of all solvers that can do the problem, those that race first."""
    others = [] if name else building_solvers(problem, device)
    able = {one.name: one for one in (*solvers_for(problem, device, name), *others)}
    with blaming(f"a solver asked about {problem.key}"):
        return {solver.name: solver.space(problem, device) for solver in able.values()}


def pinned_solvers(
    problem: Problem, device: Device, pins: Mapping[str, str], name: str | None = None
) -> list[BuildingSolver]:
    """The solvers that have configs with these settings, or the one named if it has.

    All that can do the problem are asked, those that race first. `UsageError` says what there is
    instead.
    """
    racing = solvers_for(problem, device, name)
    if not pins:
        return racing
    spaces = _spaces(problem, device, name)
    pins = _normal(spaces, pins)
    others = [] if name else building_solvers(problem, device)
    able = {solver.name: solver for solver in (*racing, *others)}
    with blaming(f"a solver asked about {problem.key}"):
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
    same = spelled(value)
    return same == text or (isinstance(value, bool) and same == text.lower())


def _complaint(problem: Problem, spaces: Mapping[str, Space], pins: Mapping[str, str]) -> str:
    """What there is instead, in a sentence."""
    all_choices = {
        solver: space.choices() for solver, space in spaces.items() if isinstance(space, Pinnable)
    }
    wanted = " and ".join(f"{name}={text}" for name, text in pins.items())
    said = f"no config of {problem.key} has {wanted}"
    known = {name for choices in all_choices.values() for name in choices}
    unknown = [name for name in pins if name not in known]
    if unknown and not known:
        return f"{said}: {', '.join(spaces)} has no settings that can be pinned"
    told = []
    for solver, choices in all_choices.items():
        shown = choices if unknown else {n: v for n, v in choices.items() if n in pins}
        listed = ", ".join(f"{n} is {_values(v)}" for n, v in shown.items())
        told.append(f"in {solver} {listed}" if listed else "")
    return f"{said}: {'; '.join(filter(None, told))}"


def _values(values: Sequence[Value]) -> str:
    texts = [spelled(value) for value in values[:_SHOWN]]
    more = len(values) - len(texts)
    return "/".join(texts) + (f" and {more} others" if more else "")
