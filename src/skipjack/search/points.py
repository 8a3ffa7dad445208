"""What a scripted searcher is: it yields points as dicts and is sent the run of each.

This is how users write searches in sweep files. A point may leave parameters out; who runs it
fills them in. ::

    class Halving(SearcherInterface):
        is_dynamic = True

        def generate(self):
            load = 1000
            while load:
                run = yield {"load": load}
                if run.ok:
                    return
                load //= 2
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from skipjack.core.config import Config
from skipjack.core.trial import Status, Trial
from skipjack.errors import UsageError, blaming

Point = Mapping[str, Any]
Points = Generator[Point, "Run | None", None]
"""What `generate` returns: yields points, is sent runs."""


class MissingStatError(KeyError):
    """A predicate asked for a number that the run does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Stats(Mapping[str, Any]):
    """What a run said, by name; `data` is the plain dict.

    A run that failed answers ``result_validity`` with ``INVALID`` and nothing else, so that a
    predicate on validity holds for it without being told what failing is.
    """

    def __init__(self, data: Mapping[str, Any], status: Status = Status.OK) -> None:
        self.data = dict(data)
        self.status = status
        if status.failed:
            self.data.setdefault("result_validity", "INVALID")

    def __getitem__(self, name: str) -> Any:
        try:
            return self.data[name]
        except KeyError:
            had = ", ".join(sorted(self.data)) or "nothing"
            raise MissingStatError(
                f"the run has no {name!r} (its status is {self.status}); it has {had}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Stats({self.data!r}, {self.status.value})"


class Run(NamedTuple):
    """A point and what came of it. ``run["x"]`` is ``run.stats["x"]``."""

    cross: Point
    stats: Any
    """A `Stats` when Skipjack made it; anything with item access when a test did."""

    @property
    def status(self) -> Status:
        status = getattr(self.stats, "status", Status.OK)
        return status if isinstance(status, Status) else Status.OK

    @property
    def ok(self) -> bool:
        """Whether it was run, came to its end, and its result counts."""
        return not self.status.failed

    def __getitem__(self, name: Any) -> Any:
        return self.stats[name] if isinstance(name, str) else tuple.__getitem__(self, name)

    @classmethod
    def of(cls, trial: Trial) -> Run:
        """What a searcher was told, as scripted ones see it."""
        data: dict[str, Any] = {**trial.metrics, "status": trial.status.value}
        if trial.status is Status.INVALID:
            data["result_validity"] = "INVALID"  # also where something of the user's says so
        if trial.value is not None:
            data.setdefault("value", trial.value)
        if trial.reason:
            data["reason"] = trial.reason
        return cls(dict(trial.config), Stats(data, trial.status))


Predicate = Callable[[Run], Any]
"""Whether a run is good; truthiness counts."""


class Repeat(dict[str, Any]):
    """Yielded instead of a plain dict: run this point again, though its result is known."""


class SearcherInterface(ABC):
    """A search written as a generator. `is_dynamic` false promises to ignore what is sent."""

    @property
    @abstractmethod
    def is_dynamic(self) -> bool:
        """Whether later points depend on earlier results."""

    @abstractmethod
    def generate(self) -> Points:
        """Yield points; each yield is answered with the `Run` of that very point."""

    def get_best(self) -> Point:
        """The best point known, where a search has a notion of its own of what is best."""
        raise NotImplementedError(f"{type(self).__name__} does not say which point is best")


def do_send(generator: Points, past: Run | None = None) -> dict[str, Any] | None:
    """The next point of a generator, or None at its end. The first time nothing is sent."""
    try:
        point = generator.send(past) if past is not None else next(generator)
    except StopIteration:
        return None
    return Repeat(point) if isinstance(point, Repeat) else dict(point)


def config_of(point: Point) -> Config:
    """A point, frozen: what a searcher changes later does not change what was run."""
    return Config.of({name: plain(value) for name, value in point.items()})


def plain(value: Any) -> Any:
    """A number of numpy as Python's own; anything else as it is."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def is_good(run: Run | None, predicate: Predicate, owner: str) -> bool:
    """Whether a run holds by the predicate of `owner`; what that raises is blamed on it.

    A run that failed never does. One that came to its end with a result that does not count is for
    the predicate to judge.
    """
    if run is None or not (run.ok or run.status is Status.INVALID):
        return False
    with blaming(f"the predicate of {owner}"):
        return bool(predicate(run))


def check_callable(function: object, what: str) -> None:
    """Refuse what cannot be called where a function is meant."""
    if not callable(function):
        raise UsageError(f"{what} must be a function, not {function!r}")


def whole_number(value: object, what: str) -> int:
    """An int from what a user gave as one; numpy's integers are, floats and bools are not."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise UsageError(f"{what} must be a whole number, not {value!r}")
    return index(value)


def listed(values: object, name: str, owner: str) -> tuple[Any, ...]:
    """The values of a parameter, from anything that has an order; a text is not a list."""
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(
        values, Iterable
    ):
        raise UsageError(f"{owner} needs a list of values for {name!r}, not {values!r}")
    return tuple(plain(value) for value in values)
