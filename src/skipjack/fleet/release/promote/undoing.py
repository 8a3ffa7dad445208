"""Finishing a promotion that was killed, and taking promotions back, the last one first."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.fleet.release.placing import put_in_place, sync
from skipjack.fleet.release.promote.promotions import (
    NEW,
    OLD,
    REMOVED,
    FileChange,
    Phase,
    Promotion,
    Promotions,
    digest_of,
)
from skipjack.storage.failure import write_failure

Step = Callable[[str], None]
"""Called with a file's name before it is touched; tests die there."""


def go_on(name: str) -> None:
    """The step of those who do not want to know."""


def finish(promotions: Promotions, promotion: Promotion, step: Step = go_on) -> Promotion:
    """Put the new files of a begun promotion in their place; those that are there stay."""
    waiting = [file for file in promotion.files if _waits(promotions.directory, file, promotion)]
    for file in waiting:
        step(file.name)
        _waits(promotions.directory, file, promotion)  # once more: others know of no lock
        _move(promotion.folder / NEW / file.name, promotions.directory / file.name)
    sync(promotions.directory)
    step("")
    shutil.rmtree(promotion.folder / NEW, ignore_errors=True)
    return promotion.moved_on(Phase.DONE)


def _waits(directory: Path, file: FileChange, promotion: Promotion) -> bool:
    now = digest_of(directory / file.name)
    if now == file.after:
        return False
    if now != file.before:
        raise StorageError(
            f"{directory / file.name} was changed by somebody else while promotion "
            f"{promotion.number} of {promotion.label} was under way; skipjack promote --undo "
            f"--force --into {directory} rolls it back"
        )
    return True


def recover(promotions: Promotions, step: Step = go_on) -> list[str]:
    """Bring what was killed to its end, under the lock; one sentence for each."""
    promotions.throw_away_unfinished()
    said = []
    for promotion in promotions.all():
        name = f"promotion {promotion.number} of {promotion.label}"
        if promotion.phase is Phase.BEGUN:
            finish(promotions, promotion, step)
            said.append(f"{name} had been interrupted; it was finished first")
        elif promotion.phase is Phase.UNDOING:
            _restore(promotions, promotion, step)
            said.append(f"undoing {name} had been interrupted; it was finished first")
    return said


def undo(
    promotions: Promotions, *, to: int | None = None, force: bool = False, step: Step = go_on
) -> list[Promotion]:
    """Take back the last promotion, or all from number `to` on; gives those that were undone."""
    nothing = UsageError(f"there is no promotion to undo in {promotions.directory}")
    if not promotions.all():
        raise nothing
    with promotions.lock():
        promotions.throw_away_unfinished()
        for promotion in promotions.all():
            if promotion.phase is Phase.UNDOING:
                _restore(promotions, promotion, step)
        standing = [one for one in promotions.all() if one.phase is not Phase.UNDONE]
        if not standing:
            raise nothing
        numbers = [one.number for one in standing]
        if to is not None and to not in numbers:
            listed = ", ".join(map(str, numbers))
            raise UsageError(
                f"promotion {to} does not stand in {promotions.directory}; those that do: {listed}"
            )
        first = numbers[-1] if to is None else to
        chosen = [one for one in reversed(standing) if one.number >= first]
        return [_undo_one(promotions, one, force, step) for one in chosen]


def _undo_one(promotions: Promotions, promotion: Promotion, force: bool, step: Step) -> Promotion:
    changed = [file for file in promotion.files if _changed(promotions.directory, file)]
    if changed and not force:
        others = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
        raise StorageError(
            f"{promotions.directory / changed[0].name}{others} changed since promotion "
            f"{promotion.number} of {promotion.label}, which undoing would lose; --force does it "
            f"all the same and keeps the changed files under {promotion.folder / REMOVED}"
        )
    lost = [file.name for file in promotion.files if _lost(promotions.directory, file, promotion)]
    if lost:
        raise StorageError(
            f"what {promotions.directory / lost[0]} was before promotion {promotion.number} is not "
            f"under {promotion.folder / OLD} any more, or was changed there; it cannot be undone"
        )
    for file in changed:
        _keep(promotions.directory / file.name, promotion.folder / REMOVED / file.name)
    return _restore(promotions, promotion.moved_on(Phase.UNDOING), step)


def _changed(directory: Path, file: FileChange) -> bool:
    """Whether it is neither what was promoted nor what stood there before."""
    return digest_of(directory / file.name) not in (file.after, file.before)


def _lost(directory: Path, file: FileChange, promotion: Promotion) -> bool:
    """Whether there is nothing to restore it from."""
    return file.before not in (
        None,
        digest_of(promotion.folder / OLD / file.name),
        digest_of(directory / file.name),
    )


def _restore(promotions: Promotions, promotion: Promotion, step: Step) -> Promotion:
    """Move back what is still among the old files; what is not there any more was moved before."""
    for file in promotion.files:
        step(file.name)
        place, kept = promotions.directory / file.name, promotion.folder / OLD / file.name
        if file.before is None:
            forced = (promotion.folder / REMOVED / file.name).exists()
            if forced or digest_of(place) == file.after:
                _unlink(place)
        elif kept.exists():
            _move(kept, place)
    sync(promotions.directory)
    step("")
    shutil.rmtree(promotion.folder / NEW, ignore_errors=True)
    return promotion.moved_on(Phase.UNDONE)


def _keep(source: Path, target: Path) -> None:
    try:
        if source.exists():
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(source, target)
    except OSError as error:
        raise write_failure(target, error) from error


def _move(source: Path, target: Path) -> None:
    try:
        put_in_place(source, target)
    except OSError as error:
        raise write_failure(target, error) from error


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise write_failure(path, error) from error
