"""User databases of MIOpen, which take precedence over its own: results of its jobs are merged.

A build of MIOpen reads the user files that are named after it, and for a key in a user find-db it
ignores the system's find-db. So only results of MIOpen's own solvers are written, under the name of
the build that found them, or under the name of a given build.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skipjack.core import parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.export.manifest import ExportOrigin, FileNote, digest_of
from skipjack.fleet.release.export.publication import ExportResult, Staging, staged
from skipjack.fleet.release.formats import (
    MIOPEN,
    Contents,
    FindOptions,
    MergeRule,
    PerfOptions,
    ReleaseFile,
    merge,
)
from skipjack.fleet.release.results import found_in, tuned_in
from skipjack.fleet.store import JobVerdict
from skipjack.interop.miopen import DbName, db_name
from skipjack.reading import numbered
from skipjack.storage import atomic_write, timestamp, utc_now

if TYPE_CHECKING:
    from skipjack.fleet.labels import LabelResults

_BUILD = re.compile(r"\d+[._]\d+[._]\d+(?:[._][\w.+-]+)?", re.ASCII)
_WHERE = (
    "see the name of a .ufdb.txt or .udb.txt in ~/.config/miopen, or MIOPEN_VERSION_* in "
    "miopen/version.h"
)


class MiopenBuild(NamedTuple):
    """A build of MIOpen, as in the names of its user files."""

    version: str
    """``3_3_0_a85ca8a54-dirty``: the version and the commit of the build."""
    features: str = ""
    """Features of the device that differ from the default."""


@dataclass(frozen=True, slots=True)
class UserExport:
    """Options of a merge into the user files of a directory."""

    kind: Literal["find", "perf"]
    output: Path
    label: str
    device: str | None = None
    build: str | None = None
    """None uses the builds of the jobs."""
    top: int | None = None
    backend: str = "HIP"
    sqlite: bool = False


def build_name(text: str) -> str:
    """A build in the form of file names; MIOpen's log has ``3.3.0.a85ca8a54``, with dots."""
    if not _BUILD.fullmatch(text):
        raise UsageError(
            f"{text!r} is not a build of MIOpen; write one like 3_3_0_a85ca8a54: {_WHERE}"
        )
    return "_".join(re.split(r"[._]", text, maxsplit=3))


def export_user_databases(request: UserExport, results: LabelResults) -> ExportResult:
    """Merge results of MIOpen's jobs into user files; changes all of them or none."""
    requested = build_name(request.build) if request.build else None
    verdicts = [
        one for one in results.verdicts(request.label, request.device) if "miopen" in one.result
    ]
    parts = [
        (build, _contents(request, list(_of_build(verdicts, build, requested))))
        for build in _builds(request, verdicts, requested)
    ]
    contents = [part for _, part in parts if part.files]
    if not contents:
        raise UsageError(
            f"label {request.label} has no results of MIOpen's own solvers, which are the only "
            f"ones it can use; skipjack load -l {request.label} --solver miopen makes jobs for them"
        )
    remarks = [remark for part in contents for remark in part.remarks]
    notes: list[FileNote] = []
    with staged(request.output) as staging:
        for build, part in parts:
            for file in part.files:
                note, remark = _merged(staging, request, build, part, file)
                notes.append(note)
                remarks.append(remark)
    for note in notes:
        _notify_miopen(request.output / note.name)
    counts: Counter[str] = Counter()
    for part in contents:
        counts.update(part.counts)
    whole = replace(contents[0], files=(), counts=dict(counts))
    return ExportResult(request.output, whole, tuple(notes), tuple(remarks))


def _builds(
    request: UserExport, verdicts: Sequence[JobVerdict], requested: str | None
) -> list[MiopenBuild]:
    found = {_build_of(verdict.result) for verdict in verdicts}
    if requested is not None:
        return sorted({MiopenBuild(requested, build.features) for build in found})
    if any(not build.version for build in found):
        raise UsageError(
            f"jobs of label {request.label} do not record their build of MIOpen; give it "
            f"with --build, such as 3_3_0_a85ca8a54: {_WHERE}"
        )
    return sorted(found)


def _build_of(result: Any) -> MiopenBuild:
    miopen = result.get("miopen", {})
    return MiopenBuild(str(miopen.get("version") or ""), str(miopen.get("features") or ""))


def _of_build(
    verdicts: Iterable[JobVerdict], build: MiopenBuild, requested: str | None
) -> Iterator[JobVerdict]:
    """Results of jobs of one build of MIOpen, or of any build if one was requested."""
    for verdict in verdicts:
        found = _build_of(verdict.result)
        if MiopenBuild(requested or found.version, found.features) == build:
            yield verdict


def _contents(request: UserExport, verdicts: Sequence[JobVerdict]) -> Contents:
    form = formats.get(MIOPEN)
    if request.kind == "find":
        return form.find(found_in(verdicts), FindOptions(request.top, request.backend))
    return form.perf(tuned_in(verdicts), PerfOptions(request.sqlite))


def _merged(
    staging: Staging, request: UserExport, build: MiopenBuild, contents: Contents, file: ReleaseFile
) -> tuple[FileNote, str]:
    """Create the merged user file of a device in the staging folder."""
    name = _file_name(request, build, file.device)
    path, new = staging.path(name), staging.folder / f"new.{name}"
    there = request.output / name
    file.write(new, file.device)
    counts = merge(there if there.is_file() else None, new, path, MergeRule.KEEP_SOLVERS)
    note = FileNote(
        *(name, contents.kind, contents.format, file.device, digest_of(path), path.stat().st_size),
        counts=file.counts,
        origin=ExportOrigin(request.label, toolchains=file.toolchains),
        date=timestamp(utc_now()),
    )
    remark = (
        f"{name}: {numbered(counts.added, 'record')} new, {counts.changed} changed, "
        f"{counts.unchanged} unchanged, {counts.kept} others kept"
    )
    return note, remark


_SCHEMA = "1.1.0"
"""The schema of a perf-db in SQLite, whose name has it in place of a build."""


def _file_name(request: UserExport, build: MiopenBuild, device: str) -> str:
    arch, units = parse_device_name(device)
    if request.kind == "perf" and request.sqlite:
        return db_name(
            DbName("perf_sqlite", arch, units, user_version=_SCHEMA, features=build.features)
        )
    return db_name(DbName(request.kind, arch, units, request.backend, *build))


def _notify_miopen(path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
    """Notify running processes of MIOpen that a file has changed.

    They read it again if its ``.time`` file contains a later time of the monotonic clock. If MIOpen
    has not created this file, it is not created: on another machine, with another clock, it would
    make MIOpen read the database again at every lookup.
    """
    beside = path.with_name(f"{path.name}.time")
    if beside.is_file():
        atomic_write(beside, str(clock()).encode(), durable=False)
