"""What a program's lookups may do: only read banks, or also measure. Light to import.

A policy is set by the environment (read once per process), by `set_tuning_policy` for the whole
process, and by ``with tuning_policy(...)`` for the code inside it in the same thread. The narrowest
one is in force. An invalid value causes one warning, and nothing is measured then: a program must
not fail because of its tuning policy.

===============================  ================================================================
variable                         meaning
===============================  ================================================================
``SKIPJACK_FIND_ENFORCE``        the mode: a name, or MIOpen's number or name for it
``SKIPJACK_FIND_MODE``           which solvers are timed if the mode is ``db``
``SKIPJACK_TUNING_SECONDS``      seconds for each problem, including start-up
``SKIPJACK_TUNING_BACKGROUND``   ``1``: answer now, and use tuned kernels later
``SKIPJACK_REGRET``              share of the program's kernel time for background trials
``SKIPJACK_TUNING_SEARCHERS``    the searcher of each class of operations, as ``cube=genetic``
``SKIPJACK_ON_MISS``             what to do with a problem that no bank knows
``SKIPJACK_ENABLE_LOGGING_CMD``  ``1``: log the command that tunes each problem
===============================  ================================================================
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TypeVar

from skipjack.errors import UsageError
from skipjack.settings import (
    ENABLE_LOGGING_CMD,
    FIND_ENFORCE,
    FIND_MODE,
    ON_MISS,
    REGRET,
    TUNING_BACKGROUND,
    TUNING_SEARCHERS,
    TUNING_SECONDS,
)

log = logging.getLogger(__name__)

_VARIABLES = {
    "mode": FIND_ENFORCE.name,
    "find_mode": FIND_MODE.name,
    "seconds": TUNING_SECONDS.name,
    "background": TUNING_BACKGROUND.name,
    "regret": REGRET.name,
    "searchers": TUNING_SEARCHERS.name,
}
"""The environment variable of each argument."""
POLICY_ARGUMENTS = {name: f"the argument {name}" for name in _VARIABLES}

OFF, DB, REFRESH = "off", "db", "refresh"
INCREMENTAL, EXHAUSTIVE, CLEAN = "incremental", "exhaustive", "clean"
_MODES = {
    OFF: (),
    DB: ("1", "none"),
    REFRESH: ("2", "db_update"),
    INCREMENTAL: ("3", "search"),
    EXHAUSTIVE: ("4", "search_db_update"),
    CLEAN: ("5", "db_clean"),
}
"""Modes, with MIOpen's numbers and names for them."""
NORMAL, FAST, HYBRID, DYNAMIC_HYBRID = "normal", "fast", "hybrid", "dynamic_hybrid"
_FIND_MODES = {NORMAL: ("1",), FAST: ("2",), HYBRID: ("3",), DYNAMIC_HYBRID: ("5",)}
IGNORE, RECORD, TUNE, FLEET = "ignore", "record", "tune", "fleet"
CLASSES = ("cube", "vector")
ALL_CLASSES = tuple((name, "auto") for name in CLASSES)
_ON_MISS = (IGNORE, RECORD, TUNE, FLEET)
_REGRET = 0.05
_YES, _NO = ("1", "on", "true", "yes"), ("", "0", "off", "false", "no")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TuningPolicy:
    """A tuning policy; `make_policy` makes one and checks its values."""

    mode: str = DB
    """``off``, ``db``, ``refresh``, ``incremental``, ``exhaustive`` or ``clean``."""
    find_mode: str = FAST
    """``fast`` measures nothing; the others apply if the mode is ``db``."""
    seconds: float | None = None
    """For each problem, including start-up; None for the limit `tune_seconds`."""
    background: bool = False
    """Whether the program continues meanwhile."""
    regret: float = _REGRET
    """Share of the program's kernel time that trials in the background may take."""
    searchers: tuple[tuple[str, str], ...] = ALL_CLASSES
    """Classes of operations that may be tuned, each with its searcher."""
    starting_s: float = field(default=0.0, kw_only=True)
    """How much longer a program waits for a first search, which starts processes."""
    stated: bool = field(default=True, compare=False)
    """Whether the mode was set explicitly."""
    key: str = field(init=False, compare=False)
    """Policies with equal keys give equal answers: a lookup remembers one answer for each."""

    def __post_init__(self) -> None:
        words = [self.mode, self.find_mode, "background" if self.background else ""]
        if self.searchers != ALL_CLASSES:
            words.append(spelled_searchers(self.searchers))
        object.__setattr__(self, "key", "/".join(words))

    def searcher_for(self, operation_class: str) -> str | None:
        """The searcher for a class of operations; None if the class is not tuned."""
        return dict(self.searchers).get(operation_class)

    @property
    def measures(self) -> bool:
        """Whether a lookup may lead to a search."""
        return self.mode in (REFRESH, INCREMENTAL, EXHAUSTIVE) or self.finds

    @property
    def trusts_banks(self) -> bool:
        """Whether a lookup needs nothing but an entry for exactly this problem and device class."""
        if self.mode == DB and self.find_mode == FAST:
            return True
        # In the background, the program's kernels are timed.
        often = self.mode == INCREMENTAL or (self.finds and self.find_mode != NORMAL)
        return often and not self.background

    @property
    def finds(self) -> bool:
        """Whether the find mode decides what is measured."""
        return self.mode == DB and self.find_mode != FAST


DEFAULT = TuningPolicy()
_scoped: ContextVar[TuningPolicy | None] = ContextVar("skipjack_tuning_policy", default=None)
_set: TuningPolicy | None = None


def current_policy() -> TuningPolicy:
    """The policy in force for the caller."""
    return _scoped.get() or _set or environment_policy()


@functools.cache
def environment_policy() -> TuningPolicy:
    """The policy that the environment set when this process first read it."""
    policy = make_policy(
        FIND_ENFORCE.text() or (INCREMENTAL if on_miss() == TUNE else DB),
        find_mode=FIND_MODE.text() or FAST,
        seconds=TUNING_SECONDS.text() or None,
        background=TUNING_BACKGROUND.text() or False,
        regret=REGRET.text() or None,
        searchers=TUNING_SEARCHERS.text() or None,
        names=_VARIABLES,
    )
    return replace(policy, stated=bool(FIND_ENFORCE.text()))


def mode_of_decorated(autotune: str) -> str:
    """The mode for decorated kernels, which are tuned by default.

    `autotune` is the setting: ``off`` means ``db`` unless the program itself sets a policy.
    """
    if own := _scoped.get() or _set:
        return own.mode
    if autotune == "off":
        return DB
    policy = environment_policy()
    return policy.mode if policy.stated else INCREMENTAL


@functools.cache
def on_miss() -> str:
    """What to do with a problem that no bank knows; read once per process.

    ``ignore``, ``record``, ``tune`` or ``fleet``. ``tune`` is the policy ``incremental`` unless
    another one is set.
    """
    return _checked(ON_MISS.name, ON_MISS.text() or IGNORE, _wish, IGNORE)


@functools.cache
def logs_commands() -> bool:
    """Whether lookups log the commands that tune their problems; read once per process."""
    given = ENABLE_LOGGING_CMD.text() or False
    return _checked(ENABLE_LOGGING_CMD.name, given, _flag, False)


def set_tuning_policy(
    mode: str | int | None,
    *,
    seconds: float | None = None,
    background: bool = False,
    find_mode: str | int = FAST,
    regret: float | str | None = None,
    searchers: Mapping[str, str] | None = None,
) -> None:
    """Set the policy of this process in place of the environment's; None restores that.

    `mode` is ``off``, ``db``, ``refresh``, ``incremental``, ``exhaustive`` or ``clean``, or
    MIOpen's number (1 to 5) or name for it. `searchers` maps the classes of operations that may be
    tuned (cube, vector) to searchers; by default both are, each with its default searcher.
    """
    global _set
    _set = (
        None
        if mode is None
        else make_policy(
            *(mode, searchers),
            find_mode=find_mode,
            seconds=seconds,
            background=background,
            regret=regret,
        )
    )


@contextmanager
def tuning_policy(
    mode: str | int,
    *,
    seconds: float | None = None,
    background: bool = False,
    find_mode: str | int = FAST,
    regret: float | str | None = None,
    searchers: Mapping[str, str] | None = None,
) -> Iterator[TuningPolicy]:
    """``with tuning_policy("incremental", seconds=2):`` applies inside, in this thread or task."""
    policy = make_policy(
        *(mode, searchers),
        find_mode=find_mode,
        seconds=seconds,
        background=background,
        regret=regret,
    )
    with in_force(policy):
        yield policy


@contextmanager
def in_force(policy: TuningPolicy) -> Iterator[None]:
    """Like `tuning_policy`, with a policy that exists already."""
    before = _scoped.set(policy)
    try:
        yield
    finally:
        _scoped.reset(before)


def make_policy(
    mode: object,
    searchers: object = None,
    *,
    find_mode: object = FAST,
    seconds: object = None,
    background: object = False,
    regret: object = None,
    names: Mapping[str, str] = POLICY_ARGUMENTS,
) -> TuningPolicy:
    """A policy from these values; an invalid one causes one warning and is ignored.

    `names` are what warnings call the values.
    """
    return TuningPolicy(
        _checked(names["mode"], mode, functools.partial(_named, _MODES), DB),
        _checked(names["find_mode"], find_mode, functools.partial(_named, _FIND_MODES), FAST),
        _checked(names["seconds"], seconds, _seconds, None),
        _checked(names["background"], background, _flag, False),
        _checked(names["regret"], regret, _share, None) or _REGRET,
        _checked(names["searchers"], searchers, _searchers, ALL_CLASSES),
    )


def policy_variables(
    mode: str | None,
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: str | None = None,
    searchers: Mapping[str, str] | None = None,
    names: Mapping[str, str] = POLICY_ARGUMENTS,
) -> dict[str, str]:
    """Environment variables that give a program this policy; without those at None.

    An invalid value is a `UsageError`.
    """
    given: dict[str, tuple[object, Callable[[object], object]]] = {
        "mode": (mode, functools.partial(_named, _MODES)),
        "seconds": (seconds, _seconds),
        "background": ("1" if background else None, _flag),
        "regret": (regret, _share),
    }
    found = {}
    for name, (value, check) in given.items():
        if value is None:
            continue
        try:
            check(value)
        except ValueError as error:
            said = str(error).removeprefix("nothing is measured; ")
            raise UsageError(f"{names[name]} is {value!r}, which is not valid: {said}") from None
        found[_VARIABLES[name]] = str(value)
    if searchers is not None:
        found[TUNING_SEARCHERS.name] = spelled_searchers(tuple(searchers.items()))
    return found


def _checked(what: str, value: object, check: Callable[[object], T], otherwise: T) -> T:
    try:
        return check(value)
    except ValueError as error:
        from skipjack.runtime.process.program import warn_once

        warn_once(log, f"{what} is {value!r}, which is not valid: {error}")
        return otherwise


def _named(names: Mapping[str, tuple[str, ...]], value: object) -> str:
    """Our name for a value, which may be an alias."""
    is_text = isinstance(value, str | int) and not isinstance(value, bool)
    word = str(value).strip().lower().replace("-", "_") if is_text else ""
    for name, aliases in names.items():
        if word == name or word in aliases:
            return name
    numbers = ", ".join(f"{aliases[0]} {name}" for name, aliases in names.items() if aliases)
    others = "".join(f", {name}" for name, aliases in names.items() if not aliases)
    raise ValueError(f"nothing is measured; write one of {numbers}{others}")


def _wish(value: object) -> str:
    word = str(value).strip().lower()
    if word not in _ON_MISS:
        raise ValueError(f"misses are ignored; write one of {', '.join(_ON_MISS)}")
    return word


def _seconds(value: object) -> float | None:
    if value is None:
        return None
    number = _number(value)
    if not 0.0 < number < math.inf:
        raise ValueError("write a number of seconds above 0")
    return number


def _share(value: object) -> float | None:
    """``5%`` or ``0.05``."""
    if value is None:
        return None
    text = str(value).strip()
    number = _number(text[:-1]) / 100 if text.endswith("%") else _number(value)
    if not 0.0 < number <= 1.0:
        raise ValueError("write a share as 5% or 0.05")
    return number


def _searchers(value: object) -> tuple[tuple[str, str], ...]:
    """``cube=genetic,vector=policy``, or a mapping; a class that is not named is not tuned."""
    if value is None:
        return ALL_CLASSES
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        value = dict(part.partition("=")[::2] for part in parts)
    known = isinstance(value, Mapping) and all(
        name in CLASSES and isinstance(searcher, str) and searcher
        for name, searcher in value.items()
    )
    if not known or not isinstance(value, Mapping):
        raise ValueError("write classes with their searchers, as cube=genetic,vector=policy")
    return tuple(sorted(value.items()))


def spelled_searchers(searchers: tuple[tuple[str, str], ...]) -> str:
    """Searchers as in the environment variable."""
    return ",".join(f"{name}={searcher}" for name, searcher in searchers)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return math.nan
    try:
        return float(value)
    except ValueError:
        return math.nan


def _flag(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _YES + _NO:
        raise ValueError("write 1 or 0")
    return word in _YES
