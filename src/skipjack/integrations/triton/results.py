"""Known results of a call: entries of banks, and the trials and verdicts of its study.

They are stored under a problem that identifies the function and its arguments, so results stay
valid when a config is added, or when other parts of the file are edited. Other classes of devices,
versions of Triton and timing protocols have separate results.

Earlier versions stored only measurements and marks. They are read if a study has no trials yet.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from typing import TypeVar

from skipjack.bank import FILE_NAME, Bank, BankEntry, layers_of
from skipjack.core import Config, Device, Problem, Status, TimingProtocol, Trial
from skipjack.errors import CorruptFileError, MalformedError, StorageError
from skipjack.ledger import Ledger, MarkKind, MarkRecord, MeasurementRecord
from skipjack.settings import Settings
from skipjack.tuning.study import BankAccess, NoBank

logger = logging.getLogger(__name__)

SOLVER = "triton_autotune"
VERSION = 1
SEARCHED, TRIED = "searched", "tried"
"""Fields of an entry's evidence: the finished search of a space, and the digests of the listed
configs that were tried."""
_LASTING = (Status.BUILD_ERROR, Status.OUT_OF_MEMORY)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AutotunePlace:
    """The problem, device and timing protocol of results."""

    problem: Problem
    device: Device
    protocol: TimingProtocol
    earlier_protocol: str
    """The name of the same protocol in earlier versions."""


@dataclass(frozen=True, slots=True)
class KnownCall:
    """Known results of a call; configs are in the form of banks."""

    entries: tuple[BankEntry, ...] = ()
    """Entries of the banks in force, the strongest first."""
    trials: tuple[Trial, ...] = ()
    """Trials of the study, or of an earlier version."""
    verdicts: tuple[Config, ...] = ()
    """The configs chosen by the study's verdicts, the latest first."""
    searched: frozenset[str] = frozenset()
    """Finished searches of a space."""
    is_earlier: bool = False
    """Whether trials are from an earlier version, which had no confirmation."""


class AutotuneResults:
    """Results in a user directory; without settings, nothing is known or stored.

    A running kernel must not fail because its timings cannot be stored: errors are logged.
    """

    def __init__(self, settings: Settings | None, place: AutotunePlace) -> None:
        self._settings, self.place = settings, place

    def known(self, study: str) -> KnownCall:
        """All valid results of this study and of banks."""
        if self._settings is None:
            return KnownCall()
        entries = self.entries()
        found = self._with_ledger(lambda ledger: self._read(ledger, study)) or KnownCall()
        told = [one.evidence.get(SEARCHED) for one in entries]
        searched = found.searched | {text for text in told if isinstance(text, str)}
        return KnownCall(entries, found.trials, found.verdicts, searched, found.is_earlier)

    def entries(self) -> tuple[BankEntry, ...]:
        """Entries of banks for this problem with the same timing protocol."""
        if self._settings is None:
            return ()
        place, settings = self.place, self._settings
        found: list[BankEntry] = []
        key, protocol = place.problem.key, place.protocol.key
        for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
            try:
                ranked = layer.ranked(key, place.device.class_key, protocol=protocol)
            except StorageError as error:
                logger.warning("%s", error)
                continue
            found += (one for one in ranked if one.protocol == protocol and one.solver == SOLVER)
        return tuple(found)

    def _read(self, ledger: Ledger, study: str) -> KnownCall:
        trials = tuple(ledger.trials(study))
        verdicts = [one for one in ledger.decisions(self.place.problem.key) if one.study == study]
        ended: set[str] = set()
        for one in verdicts:
            evidence = one.record.get("evidence")
            text = evidence.get(SEARCHED) if isinstance(evidence, Mapping) else None
            ended |= {text} if isinstance(text, str) else set()
        chosen = tuple(one.config for one in reversed(verdicts))
        if trials or verdicts:
            return KnownCall((), trials, chosen, frozenset(ended))
        return self._earlier(ledger)

    # Earlier versions

    def _earlier(self, ledger: Ledger) -> KnownCall:
        key = self.place.problem.key
        sessions: dict[str, dict[str, float]] = {}
        failures: dict[str, MeasurementRecord] = {}
        for record in filter(self._is_valid, ledger.measurements(key)):
            text = record.candidate.config
            if record.times_ns:
                sessions.setdefault(record.session, {})[text] = median(record.times_ns)
                failures.pop(text, None)
            elif record.status in _LASTING:
                failures[text] = record
        times = fold(sessions.values())
        trials = [Trial(c, value=ns) for text, ns in times.items() if (c := _config(text))]
        trials += [
            Trial(c, record.status, reason=record.reason)
            for text, record in failures.items()
            if text not in times and (c := _config(text))
        ]
        marks = (one for one in ledger.marks(key) if one.kind is MarkKind.SEARCH_ENDED)
        ended = frozenset(one.scope for one in filter(self._is_valid, marks))
        return KnownCall((), tuple(trials), (), ended, is_earlier=True)

    def _is_valid(self, record: MeasurementRecord | MarkRecord) -> bool:
        by = record.candidate if isinstance(record, MeasurementRecord) else record
        here = (self.place.device.class_key, self.place.earlier_protocol)
        made = (record.device_class, record.protocol, by.solver, by.solver_version)
        return made == (*here, SOLVER, VERSION)

    # Files

    @contextlib.contextmanager
    def ledger(self) -> Iterator[Ledger]:
        """The ledger of the user directory; one in memory if that cannot be used."""
        with self._opened() or Ledger.in_memory() as ledger:
            yield ledger

    def bank(self) -> BankAccess:
        """The bank of the user directory; without one, an object that stores nothing."""
        return Bank(self.directory / FILE_NAME) if self.directory else NoBank()

    @property
    def directory(self) -> Path | None:
        """Where results are stored; None if they are not."""
        return self._settings.user_dir if self._settings else None

    def _opened(self) -> Ledger | None:
        if self.directory is None:
            return None
        for _ in range(2):
            try:
                return Ledger.open(self.directory)
            except CorruptFileError as error:
                logger.warning(
                    "%s", error
                )  # it was quarantined; the next attempt creates a new one
            except StorageError as error:
                logger.warning("autotuning results are not stored: %s", error)
                break
        return None

    def _with_ledger(self, use: Callable[[Ledger], T]) -> T | None:
        for _ in range(2):
            opened = self._opened()
            if opened is None:
                return None
            try:
                with opened as ledger:
                    return use(ledger)
            except CorruptFileError as error:
                logger.warning("%s", error)
            except StorageError as error:
                logger.warning("earlier autotuning results cannot be read: %s", error)
                return None
        return None


def fold(sessions: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The times of several sessions, scaled to the first.

    A session that shares configs with earlier ones is scaled by these; others are used unchanged.
    """
    known: dict[str, float] = {}
    for session in sessions:
        shared = [text for text in session if text in known]
        scale = exp(fmean(log(known[t] / session[t]) for t in shared)) if shared else 1.0
        for text, time_ns in session.items():
            known[text] = time_ns * scale
    return known


def _config(text: str) -> Config | None:
    """A config from the ledger; None if the text is malformed."""
    try:
        return Config.from_key(text)
    except MalformedError:
        return None
