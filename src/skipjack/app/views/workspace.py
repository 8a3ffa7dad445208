"""What pages read: the team's store, the ledger, banks, and files of sweeps, training and programs.

Everything is optional. It is opened when a page first needs it, and never created.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from skipjack.app.views.sensors import LiveSensors
from skipjack.bank import FILE_NAME as BANK_FILE
from skipjack.bank import BankLayer, layers_of
from skipjack.errors import SkipjackError, StorageError, StoreUnavailableError, UsageError
from skipjack.ledger import FILE_NAME as LEDGER_FILE
from skipjack.ledger import Ledger, LedgerBrowser
from skipjack.settings import DB, Settings, load_settings
from skipjack.sweep.bench import WORKLOAD_PREFIX

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

T = TypeVar("T")

SWEEP_REPORT, TRAINING_RECORD = "result.json", "run.json"
_RESULTS = "tune_result_*.json"
_PATIENCE_S = 2.0
"""How long a page waits for a database that does not answer."""
_MOST_FOUND = 500
"""Training runs and result files that are listed."""

SourceName = Literal["store", "ledger", "bank", "sweeps", "training", "programs"]

_HOW: dict[str, str] = {
    "store": "set SKIPJACK_DB to the URL of the team's database, or load jobs with skipjack load",
    "ledger": "run skipjack tune, which records every trial",
    "bank": "run skipjack tune, which adds the best configs",
    "sweeps": "run skipjack sweep, perhaps with --report DIR",
    "training": "run skipjack loops train, and start this with --runs DIR",
    "programs": "run a program with skipjack exec --result, and start this with --programs DIR",
}


class SourceMissingError(UsageError):
    """A page needs a source that is not there; the message says how to get it."""

    def __init__(self, source: SourceName, where: str) -> None:
        super().__init__(f"there is no {source} at {where}; {_HOW[source]}")
        self.source = source


class UnknownNameError(UsageError):
    """There is nothing with the name that a page is asked for."""


@dataclass(frozen=True, slots=True)
class WorkspaceSource:
    """One of the things that pages read."""

    name: SourceName
    where: str
    """A path, or the URL of a database without its password."""
    present: bool
    said: str = ""
    """How to get it, or why it cannot be read; empty if it is there."""


@dataclass(frozen=True, slots=True)
class WorkspacePlaces:
    """Where a workspace looks for files; the rest is in the user directory."""

    store_url: str | None = None
    """The URL of a team's database; None for ``SKIPJACK_DB`` or the user directory."""
    sweeps: Sequence[Path] = ()
    """Directories of reports of sweeps, or folders of such directories."""
    runs: Sequence[Path] = (Path("runs"),)
    """Folders of training runs, or folders of such folders."""
    programs: Sequence[Path] = (Path(),)
    """Folders of ``tune_result_*.json``."""


class Workspace:
    """What there is to show. Several threads may use it; a context manager."""

    def __init__(
        self, settings: Settings | None = None, places: WorkspacePlaces | None = None
    ) -> None:
        self.settings = settings or load_settings()
        self.places = places or WorkspacePlaces()
        self._store: Store | None = None
        self._lock = threading.Lock()
        self._own = threading.local()
        self._remembered: dict[object, tuple[object, Any]] = {}
        self.sensors = LiveSensors()

    @property
    def user_dir(self) -> Path:
        """The directory of the ledger and of the user's bank."""
        return self.settings.user_dir

    # the store

    @property
    def has_store(self) -> bool:
        """Whether a database is configured, or its file exists."""
        return bool(self.places.store_url or DB.text()) or self._store_file.is_file()

    @property
    def _store_file(self) -> Path:
        return self.user_dir / "fleet.sqlite"

    @property
    def store(self) -> Store:
        """The open store; `SourceMissingError` if there is none."""
        with self._lock:
            if self._store is None:
                if not self.has_store:
                    raise SourceMissingError("store", str(self._store_file))
                from skipjack.fleet.store import open_store

                opened = open_store(
                    self.places.store_url,
                    settings=self.settings,
                    patience_s=_PATIENCE_S,
                    to_read=True,
                )
                _ = opened.browsing  # made once, not by several threads
                self._store = opened
            return self._store

    def is_of_store(self, error: StorageError) -> bool:
        """Whether the open store raised an error, and not one of the files."""
        store = self._store
        if store is None:
            return False
        # Errors of a database name it.
        return isinstance(error, StoreUnavailableError) or store.url_for_people in str(error)

    # the ledger

    @property
    def has_ledger(self) -> bool:
        """Whether there is a ledger's file."""
        return (self.user_dir / LEDGER_FILE).is_file()

    @property
    def ledger(self) -> Ledger:
        """The ledger, open for this thread; `SourceMissingError` if there is none."""
        found: Ledger | None = getattr(self._own, "ledger", None)
        if found is None:
            if not self.has_ledger:
                raise SourceMissingError("ledger", str(self.user_dir / LEDGER_FILE))
            found = Ledger.read(self.user_dir)
            self._own.ledger = found
        return found

    # banks

    @cached_property
    def layers(self) -> tuple[BankLayer, ...]:
        """The banks that a lookup asks, in order."""
        settings = self.settings
        return layers_of(settings.user_dir, settings.banks, settings.system_dir)

    def layer(self, name: str) -> BankLayer:
        """The bank of this name; `UnknownNameError` if there is none."""
        for layer in self.layers:
            if layer.name == name:
                return layer
        known = ", ".join(one.name for one in self.layers)
        raise UnknownNameError(f"there is no bank {name!r}; choose from {known}")

    # files

    def sweep_reports(self) -> list[Path]:
        """Directories of sweeps' reports."""
        return _folders_with(SWEEP_REPORT, self.places.sweeps)

    def training_runs(self) -> list[Path]:
        """Folders of training runs."""
        return _folders_with(TRAINING_RECORD, self.places.runs)[:_MOST_FOUND]

    def program_results(self) -> list[Path]:
        """Result files of programs, the newest first."""
        found = {path for folder in self.places.programs for path in folder.glob(_RESULTS)}
        dated = sorted(((_changed(path), path.name, path) for path in found), reverse=True)
        return [path for *_, path in dated[:_MOST_FOUND]]

    def remembered(self, what: str, path: Path, make: Callable[[], T]) -> T:
        """What was made of a file, which is made again only if the file has changed."""
        place, state = (what, path), _state(path)
        known = self._remembered.get(place)
        if known is None or known[0] != state:
            known = self._remembered[place] = state, make()
        found: T = known[1]
        return found

    # what is there

    def sources(self) -> list[WorkspaceSource]:
        """All sources, and for those that are missing how to get them."""
        return [
            self._source("store", self._store_place(), lambda: self.has_store and bool(self.store)),
            self._source(
                "ledger",
                str(self.user_dir / LEDGER_FILE),
                lambda: self.has_ledger and bool(self.ledger),
            ),
            self._source(
                "bank",
                str(self.user_dir / BANK_FILE),
                lambda: any(layer.path.is_file() for layer in self.layers),
            ),
            self._source("sweeps", _listed(self.places.sweeps), self._has_sweeps),
            self._source("training", _listed(self.places.runs), lambda: bool(self.training_runs())),
            self._source(
                "programs", _listed(self.places.programs), lambda: bool(self.program_results())
            ),
        ]

    def _has_sweeps(self) -> bool:
        if self.sweep_reports():
            return True
        return self.has_ledger and bool(LedgerBrowser(self.ledger).command_runs(WORKLOAD_PREFIX))

    def _store_place(self) -> str:
        if self._store is not None:
            return self._store.url_for_people
        if self.places.store_url or DB.text():
            return "the configured database"
        return str(self._store_file)

    @staticmethod
    def _source(name: SourceName, where: str, is_there: Callable[[], bool]) -> WorkspaceSource:
        try:
            present = is_there()
        except SkipjackError as error:
            return WorkspaceSource(name, where, False, str(error))
        return WorkspaceSource(name, where, present, "" if present else _HOW[name])

    # its end

    def close(self) -> None:
        """Close everything that was opened."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None
        found: Ledger | None = getattr(self._own, "ledger", None)
        if found is not None:
            found.close()
        self._own = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _folders_with(name: str, places: Sequence[Path]) -> list[Path]:
    """The places that have this file, and their sub-folders that do."""
    found = [place for place in places if (place / name).is_file()]
    found += [file.parent for place in places for file in sorted(place.glob(f"*/{name}"))]
    return list(dict.fromkeys(found))


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # it was removed meanwhile


def _listed(places: Sequence[Path]) -> str:
    return ", ".join(map(str, places))


def _state(path: Path) -> tuple[int, int, int] | None:
    """What changes with a file's content; None if it does not exist."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


@contextmanager
def open_workspace(
    settings: Settings | None = None, places: WorkspacePlaces | None = None
) -> Iterator[Workspace]:
    """A workspace that is closed afterwards."""
    with Workspace(settings, places) as workspace:
        yield workspace
