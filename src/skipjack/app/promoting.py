"""``promote``: a label's databases into the directory that ships, and back out of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.app.configuring import configured
from skipjack.errors import UsageError
from skipjack.fleet.release.compare.comparing import Comparison, compare
from skipjack.fleet.release.compare.gates import Gate
from skipjack.fleet.release.compare.naming_sides import LABEL, SideReader
from skipjack.fleet.release.compare.sides import has_find_dbs, side_of_path
from skipjack.fleet.release.formats import get
from skipjack.fleet.release.promote.gathering import Choice, release_of
from skipjack.fleet.release.promote.merging import Rule
from skipjack.fleet.release.promote.promoting import Promoted
from skipjack.fleet.release.promote.promoting import promote as promote_files
from skipjack.fleet.release.promote.promotions import Promotion, Promotions
from skipjack.fleet.release.promote.undoing import undo
from skipjack.fleet.store import Store, open_store
from skipjack.settings import Settings


@dataclass(frozen=True, slots=True)
class PromoteRequest:
    """What goes into which directory, and under which condition."""

    choice: Choice
    into: Path
    rule: Rule = Rule.REPLACE_KEYS
    gate: Gate = field(default_factory=Gate)
    against: str | None = None
    """What the gate compares with; None: the files that are in the directory."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PromoteResult:
    """What was changed, or would be."""

    promoted: Promoted | None
    """None if the gate did not let it pass."""
    comparison: Comparison | None
    """None if nothing was asked, or nothing is there that could have been faster."""
    failure: str = ""
    dry_run: bool = False


def promote(
    request: PromoteRequest, *, settings: Settings | None = None, store: Store | None = None
) -> PromoteResult:
    """Merge a label's databases into a directory; `undo_promotions` takes that back."""
    check_directory(request.into)
    if request.against is not None and not request.gate.closed:
        raise UsageError("--against needs --fail-if-slower or another condition to check")
    chosen = configured(settings)
    get(request.choice.form)  # with the plug-ins loaded, and before the store is opened
    with nullcontext(store) if store else open_store(settings=chosen) as opened:
        release = release_of(opened, request.choice, request.rule)
        comparison = _compared(request, chosen, opened)
        failure = request.gate.failure(comparison) if comparison else ""
        if failure:
            return PromoteResult(None, comparison, failure, request.dry_run)
        done = promote_files(release, request.into, dry_run=request.dry_run)
    return PromoteResult(done, comparison, dry_run=request.dry_run)


def undo_promotions(
    directory: Path, *, to: int | None = None, force: bool = False
) -> Sequence[Promotion]:
    """Take the last promotion back, or all from number `to` on.

    `force` does so although files were changed since.
    """
    check_directory(directory)
    return undo(Promotions(directory), to=to, force=force)


def promotions(directory: Path) -> Sequence[Promotion]:
    """All promotions into a directory, the first one first."""
    check_directory(directory)
    return Promotions(directory).all()


def check_directory(into: Path) -> None:
    """`UsageError` if it is not a directory."""
    if not into.is_dir():
        what = "is not a directory" if into.exists() else "does not exist"
        raise UsageError(f"{into} {what}; name the directory with the databases to update")


def _compared(request: PromoteRequest, settings: Settings, store: Store) -> Comparison | None:
    """The comparison that the gate asks for."""
    choice, against = request.choice, request.against
    if not request.gate.closed or (against is None and not has_find_dbs(request.into)):
        return None
    with SideReader(settings, store) as reader:
        new = reader.side(f"{LABEL}{choice.label}", choice.device)
        if against is None:
            form, backend = choice.form, choice.backend
            old = side_of_path(request.into, choice.device, form=form, backend=backend)
        else:
            old = reader.side(against, choice.device)
    return compare(new, old)
