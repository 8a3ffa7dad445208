"""Points as searchers yield them, made whole and frozen, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipjack.core.config import Config
from skipjack.core.space import Space
from skipjack.errors import UsageError
from skipjack.search.scripted.contract import Points, SearcherInterface, plain


def started(searcher: SearcherInterface) -> Points:
    """The searcher's generator."""
    points = searcher.generate()
    if not hasattr(points, "send"):
        raise UsageError(
            f"generate of {_name(searcher)} must be a generator function: it must yield points"
        )
    return points


def whole_point(
    searcher: SearcherInterface, point: object, space: Space | None, defaults: Mapping[str, Any]
) -> Config:
    """The config that a yielded point stands for: what it leaves out is filled in."""
    if not isinstance(point, Mapping):
        raise UsageError(f"{_name(searcher)} yielded {point!r}, which is no dict of parameters")
    settings = {name: plain(value) for name, value in point.items()}
    if space is not None:
        whole = space.default()
        settings = {name: _fitting(searcher, whole, name, settings[name]) for name in settings}
        defaults = {**whole, **{name: defaults[name] for name in defaults if name in whole}}
    try:
        return Config.of({**defaults, **settings})
    except TypeError as error:
        raise UsageError(
            f"{_name(searcher)} yielded {dict(point)}, which cannot be written down: {error}"
        ) from None


def _fitting(searcher: SearcherInterface, whole: Config, name: str, value: Any) -> Any:
    if name not in whole:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but there is no such parameter; "
            f"there are {', '.join(whole)}"
        )
    kind = type(whole[name])
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but values of {name} "
            f"are of kind {kind.__name__}, not {type(value).__name__}"
        )
    return value


def _name(searcher: SearcherInterface) -> str:
    return f"searcher {type(searcher).__name__}"
