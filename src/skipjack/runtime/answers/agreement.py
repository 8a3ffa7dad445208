"""Answers that the ranks of a program have in common: one small file for each problem, written
once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.core import Config
from skipjack.errors import MalformedError, SkipjackError, StorageError
from skipjack.reading import read_json
from skipjack.runtime.answers.explicit import explicit_answer
from skipjack.runtime.answers.question import LookupAnswer, Question
from skipjack.runtime.process import generation, ranked_program, warn_once
from skipjack.storage import FileLock, atomic_write, ensure_directory

# The agreements of a program's ranks: one small file for each problem, written once.
#
# Each process holds a shared lock on the folder of its program. A process that finds it unlocked is
# the first of a new run, and empties the folder. Unlocked folders of other programs are removed.

log = logging.getLogger(__name__)

FOLDER = "ranks"
FORMAT = 1
_PATIENCE_S = 600.0
"""How long ranks wait for the deciding one, which may tune; after that each decides for itself."""
_MOST_REMOVED = 100
"""How often other processes may remove a folder while this one locks it."""
_ENTER = "enter.lock"
"""Held while a folder is locked or removed."""


@dataclass(frozen=True, slots=True)
class AgreedAnswer:
    """The answer that one rank decided on for all."""

    solver: str
    """Empty if nothing can compute the problem."""
    config: str
    """The key of a `Config`."""
    source: str
    is_banked: bool


class Agreement:
    """The folder of one program, locked for the life of this process."""

    def __init__(self, folder: Path) -> None:
        """Lock the folder; `StorageError` if it cannot be written to."""
        self._folder, self._held = folder, _enter(folder)

    def settle(self, question: str, decide: Callable[[], AgreedAnswer]) -> AgreedAnswer:
        """The decision about a question, made by this process if there is none; `StorageError`.

        While one process decides, the others wait. If it dies, the next one decides.
        """
        name = hashlib.sha256(question.encode()).hexdigest()[:32]
        path = self._folder / f"{generation()}-{name}.json"
        if found := _read(path):
            return found
        with FileLock(path.with_suffix(".lock"), log.info, _PATIENCE_S):
            if found := _read(path):
                return found
            decided = decide()
            data = json.dumps({"format": FORMAT, "question": question, **asdict(decided)})
            atomic_write(path, data.encode(), durable=False)
        return decided


_entered: dict[Path, Agreement | None] = {}
"""Agreements by folder; None for folders that cannot be used."""


def agreement_of(user_dir: Path) -> Agreement | None:
    """The agreement of this program; None if it has no ranks, or its folder cannot be used."""
    program = ranked_program()
    if program is None:
        return None
    folder = user_dir / FOLDER / hashlib.sha256(program.name.encode()).hexdigest()[:32]
    if folder not in _entered:
        try:
            _entered[folder] = Agreement(folder)
            _remove_ended(folder)
        except StorageError as error:
            _entered[folder] = None
            warn_once(log, f"ranks may use different kernels: {error}")
    return _entered[folder]


def _enter(folder: Path) -> FileLock:
    """The lock that each process of the program holds; `StorageError`."""
    for _ in range(_MOST_REMOVED):
        ensure_directory(folder)
        try:
            with FileLock(folder / _ENTER, timeout_s=_PATIENCE_S) as entering:
                if not entering.is_current:
                    continue  # the folder was removed meanwhile
                if _is_unlocked(folder):
                    for path in folder.glob("*.json"):
                        path.unlink(missing_ok=True)
                return FileLock(folder / "held.lock", shared=True).__enter__()
        except StorageError:
            if folder.is_dir():
                raise
    raise StorageError(f"other processes keep removing {folder}")


def _is_unlocked(folder: Path) -> bool:
    try:
        with FileLock(folder / "held.lock", timeout_s=0.0):
            return True
    except StorageError:
        return False


def _remove_ended(own: Path) -> None:
    """Remove the folders of programs that have ended."""
    try:
        locks = list(own.parent.glob(f"*/{_ENTER}"))
    except OSError:
        return
    for lock in locks:
        folder = lock.parent
        if folder == own:
            continue
        with contextlib.suppress(StorageError), FileLock(lock, timeout_s=0.0) as entering:
            if entering.is_current and _is_unlocked(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _read(path: Path) -> AgreedAnswer | None:
    try:
        found = read_json(path.read_bytes()).without("format", FORMAT).mapping()
        found.pop("question", None)
        return AgreedAnswer(**found)
    except (OSError, MalformedError, TypeError):
        return None


# Answers that all ranks of a program share.

lookup_log = logging.getLogger("skipjack.runtime.lookup")


def agreed_answer(
    shared: Agreement,
    question: Question,
    way: str,
    decide: Callable[[], LookupAnswer | None],
) -> LookupAnswer | None:
    """The answer that another rank decided on, or the result of `decide`, which the others adopt.

    `way` identifies the policy and the kind of lookup. A rank that cannot run the shared answer
    warns once and decides for itself.
    """
    mine: list[LookupAnswer | None] = []

    def decided() -> AgreedAnswer:
        mine.append(decide())
        answer = mine[0]
        if answer is None:
            return AgreedAnswer("", "{}", "", False)
        config = Config(answer.config).key
        return AgreedAnswer(answer.kernel.solver, config, answer.source, answer.is_banked)

    try:
        agreed = shared.settle(_text(question, way), decided)
        return mine[0] if mine else _adopted(question, agreed)
    except SkipjackError as error:
        warn_once(lookup_log, f"{question.problem.key}: this rank decides for itself: {error}")
        return mine[0] if mine else decide()


def _text(question: Question, way: str) -> str:
    """Everything that an answer depends on, except the contents of the banks."""
    paths = [str(layer.path) for layer in question.layers]
    asked = question.problem.key, question.device.class_key, question.protocol or "", way
    return "\n".join([*asked, question.library_alone, *paths])


def _adopted(question: Question, agreed: AgreedAnswer) -> LookupAnswer | None:
    if not agreed.solver:
        return None
    config = Config.from_key(agreed.config)
    return explicit_answer(
        question, agreed.solver, config, agreed.source, is_banked=agreed.is_banked
    )
