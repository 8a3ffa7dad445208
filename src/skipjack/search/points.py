"""The interface of scripted searchers, which yield points as dicts and receive their runs.

Users write searches in sweep files this way. A point may leave out parameters, which then have
their default values. ::

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

from skipjack.core import Config, Status, Trial
from skipjack.errors import UsageError, foreign_code

Point = Mapping[str, Any]
Points = Generator[Point, "Run | None", None]
"""The type of `generate`: yields points and receives runs."""


class MissingStatError(KeyError):
    """A predicate used a metric that the run does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class Stats(Mapping[str, Any]):
    """The metrics of a run by name; `data` is the plain dict.

    A run that failed has ``result_validity`` ``INVALID``, so that predicates on validity need not
    treat failed runs separately.
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
                f"the run has no metric {name!r} (its status is {self.status}); it has {had}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Stats({self.data!r}, {self.status.value})"


class Run(NamedTuple):
    """A point and its result. ``run["x"]`` is ``run.stats["x"]``."""

    cross: Point
    stats: Any
    """A `Stats` if Skipjack made the run; tests may use any mapping."""

    @property
    def status(self) -> Status:
        status = getattr(self.stats, "status", Status.OK)
        return status if isinstance(status, Status) else Status.OK

    @property
    def ok(self) -> bool:
        """Whether it was run, succeeded, and is valid."""
        return not self.status.failed

    def __getitem__(self, name: Any) -> Any:
        return self.stats[name] if isinstance(name, str) else tuple.__getitem__(self, name)

    @classmethod
    def of(cls, trial: Trial) -> Run:
        """The run that corresponds to a trial."""
        data: dict[str, Any] = {**trial.metrics, "status": trial.status.value}
        if trial.status is Status.INVALID:
            data["result_validity"] = "INVALID"  # also if a requirement of the user failed
        if trial.value is not None:
            data.setdefault("value", trial.value)
        if trial.reason:
            data["reason"] = trial.reason
        return cls(dict(trial.config), Stats(data, trial.status))


Predicate = Callable[[Run], Any]
"""Given a run, returns whether it holds."""


class Repeat(dict[str, Any]):
    """A point to run again although its result is known, yielded instead of a plain dict."""


class SearcherInterface(ABC):
    """A search written as a generator. If `is_dynamic` is false, it must not use results."""

    @property
    @abstractmethod
    def is_dynamic(self) -> bool:
        """Whether later points depend on earlier results."""

    @abstractmethod
    def generate(self) -> Points:
        """Yield points; each yield returns the `Run` of that point."""

    def get_best(self) -> Point:
        """The best point so far, if the search defines one."""
        raise NotImplementedError(f"{type(self).__name__} does not define a best point")


def do_send(generator: Points, past: Run | None = None) -> dict[str, Any] | None:
    """The next point of a generator, or None at its end. Without `past` the generator starts."""
    try:
        point = generator.send(past) if past is not None else next(generator)
    except StopIteration:
        return None
    return Repeat(point) if isinstance(point, Repeat) else dict(point)


def config_of(point: Point) -> Config:
    """An immutable copy of a point, which the searcher may change later."""
    return Config.of({name: plain(value) for name, value in point.items()})


def plain(value: Any) -> Any:
    """Convert a number of NumPy to a Python number; other values are returned as they are."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value


def is_good(run: Run | None, predicate: Predicate, owner: str) -> bool:
    """Whether a run holds by the predicate of `owner`, which errors name.

    A failed run never holds. The predicate also judges invalid runs.
    """
    if run is None or not (run.ok or run.status is Status.INVALID):
        return False
    with foreign_code(f"the predicate of {owner}"):
        return bool(predicate(run))


def check_callable(function: object, what: str) -> None:
    """Raise `UsageError` if a function is not callable."""
    if not callable(function):
        raise UsageError(f"{what} must be a function, not {function!r}")


def whole_number(value: object, what: str) -> int:
    """The integer that a user gave; NumPy's integers are allowed, floats and bools are not."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise UsageError(f"{what} must be a whole number, not {value!r}")
    return index(value)


def listed(values: object, name: str, owner: str) -> tuple[Any, ...]:
    """The values of a parameter, from any ordered collection; a string is not one."""
    if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(
        values, Iterable
    ):
        raise UsageError(f"{owner} needs a list of values for {name!r}, not {values!r}")
    return tuple(plain(value) for value in values)
