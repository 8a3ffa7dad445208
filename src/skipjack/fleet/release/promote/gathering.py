"""All databases of a label, as they would be exported, for a promotion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import skipjack
from skipjack.errors import UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.export.manifest import Origin
from skipjack.fleet.release.formats import MIOPEN, Alias, Contents, FindOptions, PerfOptions
from skipjack.fleet.release.promote.merging import Rule
from skipjack.fleet.release.promote.promoting import Release
from skipjack.fleet.release.results import (
    CACHED,
    CONFIGS,
    RANKINGS,
    TUNINGS,
    Readiness,
    Wanted,
    configs_readiness,
    fetching,
    found_in_label,
    kernels_in_label,
    readiness_of,
    tuned_in_label,
)
from skipjack.fleet.store import Store

FIND, PERF, KERNEL = "find", "perf", "kernel"
KINDS: dict[str, Wanted] = {FIND: RANKINGS, PERF: CONFIGS, KERNEL: CACHED}


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a label is wanted."""

    label: str
    device: str | None = None
    kinds: tuple[str, ...] = ()
    """Of the databases; none: all that the label has jobs for."""
    form: str = MIOPEN
    top: int | None = None
    """Solvers of each problem; all."""
    partial: bool = False
    """Although not all jobs are done."""
    aliases: tuple[Alias, ...] = ()
    backend: str = "HIP"
    """In the names of MIOpen's find-dbs."""


def parse_kinds(text: str) -> tuple[str, ...]:
    """``find,perf`` as the kinds of databases."""
    kinds = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"unknown kind of database {kind!r}: choose of {', '.join(KINDS)}")
    return kinds


def release_of(store: Store, choice: Choice, rule: Rule) -> Release:
    """What is to be promoted; `UsageError` if jobs are not done and that was not allowed."""
    label = store.labels.get(choice.label)
    contents = [_contents(store, choice, kind) for kind in _kinds(store, choice)]
    if not contents:
        raise UsageError(
            f"label {choice.label} has nothing to promote: no job of it is done; "
            f"skipjack run -l {choice.label} does them"
        )
    origin = Origin(label.name, label.owner, label.versions, label.image, label.ticket)
    versions = {
        "skipjack": skipjack.__version__,
        "toolchain": label.toolchain,
        "versions": label.versions,
        "image": label.image,
    }
    told = {name: text for name, text in versions.items() if text}
    return Release(choice.label, contents, rule, told, origin, choice.aliases)


def _kinds(store: Store, choice: Choice) -> Sequence[str]:
    """Those that were named, which must be there, or all that there are jobs for."""
    chosen = []
    for kind in choice.kinds or KINDS:
        ready = _ready(store, choice, kind)
        if kind in choice.kinds and kind == KERNEL and not ready.jobs:
            ready = readiness_of(store, choice.label, TUNINGS, choice.device)
        if choice.kinds or ready.jobs:
            ready.check(partial=choice.partial)
            chosen.append(kind)
    return chosen


def _ready(store: Store, choice: Choice, kind: str) -> Readiness:
    if kind == PERF:
        return configs_readiness(store, choice.label, choice.device)
    return readiness_of(store, choice.label, KINDS[kind], choice.device)


def _contents(store: Store, choice: Choice, kind: str) -> Contents:
    label, device, form = choice.label, choice.device, formats.get(choice.form)
    if kind == FIND:
        found = found_in_label(store.results, label, device)
        return form.find(found, FindOptions(choice.top, choice.backend))
    if kind == PERF:
        made = form.perf(tuned_in_label(store.results, label, device), PerfOptions())
        return replace(made, remarks=(*made.remarks, *_ready(store, choice, kind).remarks))
    return form.kernel(
        kernels_in_label(store.results, label, device), fetching(store.results, label)
    )
