"""``compare`` and ``promote``: results against a baseline, and databases that ship."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.app.configuration import configured
from skipjack.errors import UsageError
from skipjack.fleet.release.compare import (
    LABEL,
    CompareOptions,
    Comparison,
    Gate,
    SideReader,
    has_find_dbs,
    side_of_path,
)
from skipjack.fleet.release.compare import compare as compare_sides
from skipjack.fleet.release.formats import MergeRule, get
from skipjack.fleet.release.promote import (
    Promoted,
    Promotion,
    PromotionRequest,
    Promotions,
    release_of,
    undo,
)
from skipjack.fleet.release.promote import promote as promote_files
from skipjack.fleet.store import Store, open_store
from skipjack.settings import Settings

# ``compare``: compares results with a baseline and checks a gate.


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Two sides, each a label, a find-db, a directory of them, or ``bank``."""

    new: str
    against: str
    device: str | None = None
    """None for all devices that both sides have."""
    against_device: str | None = None
    """The baseline's device, if it is another one."""
    gate: Gate = field(default_factory=Gate)
    options: CompareOptions = field(default_factory=CompareOptions)


@dataclass(frozen=True, slots=True)
class GatedComparison:
    """A comparison, and why it does not pass the gate."""

    comparison: Comparison
    failure: str = ""
    """Empty if it passes."""


def compare(request: CompareRequest, *, settings: Settings | None = None) -> GatedComparison:
    """Compare results with a baseline: faster, equal or slower."""
    across = request.options.across_devices
    theirs = request.against_device or (None if across else request.device)
    with SideReader(configured(settings)) as reader:
        new = reader.side(request.new, request.device)
        old = reader.side(request.against, theirs)
    comparison = compare_sides(new, old, request.options)
    return GatedComparison(comparison, request.gate.failure(comparison))


# ``promote``: merges a label's databases into the directory that ships, and undoes it.


@dataclass(frozen=True, slots=True)
class PromoteRequest:
    """What to promote into which directory, and under which condition."""

    choice: PromotionRequest
    into: Path
    rule: MergeRule = MergeRule.REPLACE_KEYS
    gate: Gate = field(default_factory=Gate)
    against: str | None = None
    """The gate's baseline; None for the files in the directory."""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PromoteResult:
    """What a promotion changed, or would change."""

    promoted: Promoted | None
    """None if the gate was not passed."""
    comparison: Comparison | None
    """None without a gate, or if the directory has no baseline."""
    failure: str = ""
    dry_run: bool = False


def promote(
    request: PromoteRequest, *, settings: Settings | None = None, store: Store | None = None
) -> PromoteResult:
    """Merge a label's databases into a directory; `undo_promotions` undoes it."""
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
    """Undo the last promotion, or all from number `to` on.

    `force` does so even if files were changed since.
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
    return compare_sides(new, old)
