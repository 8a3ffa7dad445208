"""User databases of MIOpen, which it reads before its own: what its own jobs found, merged in.

A build of MIOpen reads the user files that are named after it, and of a key in a user find-db it
does not look into the system's. So they get results of MIOpen's own solvers alone, each under the
name of the build that found it, or all under one that is asked for.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skipjack.core.device import parse_device_name
from skipjack.errors import UsageError
from skipjack.fleet.release import formats
from skipjack.fleet.release.export.manifest import FileNote, Origin, digest_of
from skipjack.fleet.release.export.publishing import Exported
from skipjack.fleet.release.export.staging import Staging, staged
from skipjack.fleet.release.formats import (
    MIOPEN,
    Contents,
    FindOptions,
    PerfOptions,
    ReleaseFile,
)
from skipjack.fleet.release.promote.merging import Rule, merge
from skipjack.fleet.release.results import found_in, tuned_in
from skipjack.fleet.store import JobVerdict
from skipjack.interop.miopen import DbName, db_name
from skipjack.reading import numbered
from skipjack.storage import atomic_write, timestamp, utc_now

if TYPE_CHECKING:
    from skipjack.fleet.store_protocols import LabelResults

_BUILD = re.compile(r"\d+[._]\d+[._]\d+(?:[._][\w.+-]+)?", re.ASCII)
_WHERE = (
    "the name of a .ufdb.txt or .udb.txt in ~/.config/miopen says it, or MIOPEN_VERSION_* in "
    "miopen/version.h"
)


class MiopenBuild(NamedTuple):
    """Which MIOpen it was, as its user files are named."""

    version: str
    """``3_3_0_a85ca8a54-dirty``: the version and what the build was made of."""
    features: str = ""
    """Of the device, where they are not the usual ones."""


@dataclass(frozen=True, slots=True)
class UserExport:
    """What is to be merged into the user files of a directory."""

    kind: Literal["find", "perf"]
    output: Path
    label: str
    device: str | None = None
    build: str | None = None
    """None: that of the jobs."""
    top: int | None = None
    backend: str = "HIP"
    sqlite: bool = False


def build_name(text: str) -> str:
    """A build as in names of files; MIOpen's log writes it with dots, as ``3.3.0.a85ca8a54``."""
    if not _BUILD.fullmatch(text):
        raise UsageError(
            f"{text!r} is no build of MIOpen; write one like 3_3_0_a85ca8a54: {_WHERE}"
        )
    return "_".join(re.split(r"[._]", text, maxsplit=3))


def export_user_databases(request: UserExport, results: LabelResults) -> Exported:
    """Merge what jobs of MIOpen found into user files; all of them, or nothing is changed."""
    asked = build_name(request.build) if request.build else None
    verdicts = [
        one for one in results.verdicts(request.label, request.device) if "miopen" in one.result
    ]
    parts = [
        (build, _contents(request, list(_of_build(verdicts, build, asked))))
        for build in _builds(request, verdicts, asked)
    ]
    contents = [part for _, part in parts if part.files]
    if not contents:
        raise UsageError(
            f"label {request.label} has nothing that MIOpen itself found, and MIOpen has no other "
            f"solvers than its own: skipjack load -l {request.label} --solver miopen lets it search"
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
        _tell_of(request.output / note.name)
    counts: Counter[str] = Counter()
    for part in contents:
        counts.update(part.counts)
    whole = replace(contents[0], files=(), counts=dict(counts))
    return Exported(request.output, whole, tuple(notes), tuple(remarks))


def _builds(
    request: UserExport, verdicts: Sequence[JobVerdict], asked: str | None
) -> list[MiopenBuild]:
    found = {_build_of(verdict.result) for verdict in verdicts}
    if asked is not None:
        return sorted({MiopenBuild(asked, build.features) for build in found})
    if any(not build.version for build in found):
        raise UsageError(
            f"jobs of label {request.label} do not say which build of MIOpen they ran; give it "
            f"with --build, as 3_3_0_a85ca8a54: {_WHERE}"
        )
    return sorted(found)


def _build_of(result: Any) -> MiopenBuild:
    said = result.get("miopen", {})
    return MiopenBuild(str(said.get("version") or ""), str(said.get("features") or ""))


def _of_build(
    verdicts: Iterable[JobVerdict], build: MiopenBuild, asked: str | None
) -> Iterator[JobVerdict]:
    """What jobs of one build of MIOpen say, or of any if the name of the build was asked for."""
    for verdict in verdicts:
        found = _build_of(verdict.result)
        if MiopenBuild(asked or found.version, found.features) == build:
            yield verdict


def _contents(request: UserExport, verdicts: Sequence[JobVerdict]) -> Contents:
    form = formats.get(MIOPEN)
    if request.kind == "find":
        return form.find(found_in(verdicts), FindOptions(request.top, request.backend))
    return form.perf(tuned_in(verdicts), PerfOptions(request.sqlite))


def _merged(
    staging: Staging, request: UserExport, build: MiopenBuild, contents: Contents, file: ReleaseFile
) -> tuple[FileNote, str]:
    """The user file of a device with what is new in it, made beside its place."""
    name = _file_name(request, build, file.device)
    path, new = staging.path(name), staging.folder / f"new.{name}"
    there = request.output / name
    file.write(new, file.device)
    counts = merge(there if there.is_file() else None, new, path, Rule.KEEP_SOLVERS)
    note = FileNote(
        *(name, contents.kind, contents.format, file.device, digest_of(path), path.stat().st_size),
        counts=file.counts,
        origin=Origin(request.label, toolchains=file.toolchains),
        date=timestamp(utc_now()),
    )
    remark = (
        f"{name}: {numbered(counts.added, 'record')} new, {counts.changed} changed, "
        f"{counts.unchanged} the same, {counts.kept} of others kept"
    )
    return note, remark


_SCHEMA = "1.1.0"
"""Of a perf-db in SQLite, whose name says that and no build."""


def _file_name(request: UserExport, build: MiopenBuild, device: str) -> str:
    arch, units = parse_device_name(device)
    if request.kind == "perf" and request.sqlite:
        return db_name(
            DbName("perf_sqlite", arch, units, user_version=_SCHEMA, features=build.features)
        )
    return db_name(DbName(request.kind, arch, units, request.backend, *build))


def _tell_of(path: Path, clock: Callable[[], int] = time.monotonic_ns) -> None:
    """Let processes of MIOpen that run know that a file has changed.

    They read it again if the file beside it holds a later time of the clock that runs since the
    machine was started. Where MIOpen has not made that file, none is made: on another machine, with
    another clock, it would have MIOpen read the database again at every look-up.
    """
    beside = path.with_name(f"{path.name}.time")
    if beside.is_file():
        atomic_write(beside, str(clock()).encode(), durable=False)
