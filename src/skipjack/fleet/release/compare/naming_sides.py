"""What a word on the command line means as a side of a comparison.

``bank`` is the bank, ``label:NAME`` a label, ``file:PATH`` a file or directory. Anything else is a
file if it is spelled like one (with a slash, or with the ending of a find-db), else whichever of a
label and a file of that name there is; if there are both, which one is meant must be said.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from skipjack.bank import Bank
from skipjack.errors import UsageError
from skipjack.fleet.release.compare.sides import Side, side_of_bank, side_of_label, side_of_path
from skipjack.fleet.release.formats import of_find_db
from skipjack.fleet.release.placing import PACKED
from skipjack.fleet.store.jobs.labels import hint
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

BANK, LABEL, FILE = "bank", "label:", "file:"
_ENDINGS = (".txt", ".jsonl", PACKED)


class SideReader:
    """Reads sides; the store is opened when the first label is asked for."""

    def __init__(self, settings: Settings, store: Store | None = None) -> None:
        self._settings = settings
        self._store = store
        self._mine = store is None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._store is not None and self._mine:
            self._store.close()

    def side(self, text: str, device: str | None = None) -> Side:
        """What the word names; `UsageError` if there is no such thing."""
        if text == BANK:
            return self._full(side_of_bank(Bank.open(self._settings.user_dir), device), device)
        if text.startswith(LABEL):
            return self._of_label(text.removeprefix(LABEL), device)
        if text.startswith(FILE) or self._is_file(text):
            path = Path(text.removeprefix(FILE))
            if not path.exists():
                raise UsageError(f"there is no file or directory {path} to compare")
            return self._full(side_of_path(path, device), device)
        return self._of_label(text, device)

    def _is_file(self, text: str) -> bool:
        if "/" in text or text.endswith(_ENDINGS) or of_find_db(Path(text)):
            return True
        if not Path(text).exists():
            return False
        if text in self._labels():
            raise UsageError(
                f"{text} is both a label and a file; say {LABEL}{text} or {FILE}{text}"
            )
        return True

    def _of_label(self, label: str, device: str | None) -> Side:
        known = self._labels()
        if label not in known:
            near = f"; of the labels, {hint(label, known)}" if known else ""
            raise UsageError(f"there is no label {label!r} and no file of that name{near}")
        side = side_of_label(self._opened(), label, device)
        if not side.found:
            raise UsageError(
                f"label {label} has no finished job with a result{_on(device)}; "
                f"skipjack status -l {label} shows how far it is"
            )
        return side

    def _full(self, side: Side, device: str | None) -> Side:
        if not side.found:
            raise UsageError(f"{side.name} has no ranking{_on(device)} to compare")
        return side

    def _labels(self) -> list[str]:
        return [one.label.name for one in self._opened().labels.all()]

    def _opened(self) -> Store:
        from skipjack.fleet.store import open_store

        if self._store is None:
            self._store = open_store(settings=self._settings)
        return self._store


def _on(device: str | None) -> str:
    return f" on {device}" if device else ""
