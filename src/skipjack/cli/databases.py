"""``skipjack convert-db`` and ``skipjack check-db``: databases of MIOpen in every format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skipjack.cli.arguments import JsonOption, examples

if TYPE_CHECKING:
    from skipjack.interop.miopen import FileReport

CONVERT_EXAMPLES = examples(
    "skipjack convert-db gfx942130.HIP.fdb.txt -o same.fdb.txt",
    "skipjack convert-db gfx1030_36.db -o gfx1030_36.db.txt",
    "skipjack convert-db gfx900_56.OpenCL.fdb.txt -o new.fdb.txt --values current",
)
CHECK_EXAMPLES = examples(
    "skipjack check-db out/",
    "skipjack check-db gfx90a68.HIP.fdb.txt --json",
)
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", help="The device, such as gfx900/56, if a file holds several."),
]


def convert_db(
    file: Annotated[
        Path, typer.Argument(help="A find-db, perf-db or kernel-db, plain or as .bz2.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The file to write. Its suffix selects the format: .fdb.txt, .db.txt, .db, .kdb "
            "or .jsonl.",
        ),
    ],
    values: Annotated[
        str | None, typer.Option(help="Write find results as current or as legacy values.")
    ] = None,
    keep_order: Annotated[bool, typer.Option("--keep-order", help="Do not sort records.")] = False,
    merge: Annotated[
        list[Path] | None,
        typer.Option(help="Add missing records from another file of this kind; repeatable."),
    ] = None,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Write a database of MIOpen in another format, or sorted.

    Records that the other format cannot hold are listed.
    """
    from skipjack.errors import UsageError
    from skipjack.interop.miopen import VALUE_FORMATS, ConvertOptions, convert
    from skipjack.reading import numbered
    from skipjack.report import print_json

    wanted = VALUE_FORMATS.get(values or "")
    if values and wanted is None:
        raise UsageError(f"--values is {values!r}; write current or legacy")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no directory {output.absolute().parent}")
    options = ConvertOptions(wanted, keep_order, device, tuple(merge or ()))
    done = convert(file, output, options)
    if json:
        record = {
            "file": str(output),
            "read": str(done.source),
            "written": str(done.target),
            "records": done.records,
            "lost": list(done.losses),
        }
        print_json("convert-db", record)
        return
    for loss in done.losses:
        typer.echo(f"not in {output}: {loss}", err=True)
    what = numbered(done.records, "kernel" if done.source.kind == "kernel" else "record")
    typer.echo(f"{what} from {file} ({done.source}) in {output} ({done.target})")


def check_db(
    paths: Annotated[
        list[Path], typer.Argument(help="Database files, or directories that contain some.")
    ],
    limit: Annotated[
        int, typer.Option(min=1, help="How many findings of each kind to list for each file.")
    ] = 5,
    device: DeviceOption = None,
    json: JsonOption = False,
) -> None:
    """Check databases for wrong times, orphans, duplicates and damage.

    The exit code is 1 if errors are found.
    """
    from skipjack.fleet.release.export import FILE_NAME, manifest_reports
    from skipjack.interop.miopen import check_paths, files_to_check
    from skipjack.reading import numbered
    from skipjack.report import print_json

    reports = check_paths(paths, limit=limit, device=device)
    reports += manifest_reports(paths, limit=limit)
    _, others = files_to_check(paths)
    if skipped := [str(path) for path in others if path.name != FILE_NAME]:
        text = f"skipped, as their names are not those of databases: {', '.join(skipped)}"
        typer.echo(text, err=True)
    for report in reports:
        if json:
            print_json("check-db", _fields(report))
        else:
            _print(report)
    errors = sum(report.total("error") for report in reports)
    if not json and len(reports) > 1:
        warnings = sum(report.total("warning") for report in reports)
        typer.echo(
            f"{len(reports)} files: {numbered(errors, 'error')}, {numbered(warnings, 'warning')}"
        )
    if errors:
        raise typer.Exit(1)


def _fields(report: FileReport) -> dict[str, Any]:
    return {
        "file": report.file,
        "database": report.database,
        "records": report.records,
        "errors": report.total("error"),
        "warnings": report.total("warning"),
        "counts": dict(report.counts),
        "findings": [
            {
                "line": one.line,
                "kind": one.kind,
                "severity": one.severity,
                "message": one.message,
            }
            for one in report.findings
        ],
    }


def _print(report: FileReport) -> None:
    from skipjack.interop.miopen import FINDING_KINDS
    from skipjack.reading import numbered

    what = f" ({report.database}, {numbered(report.records, 'record')})" if report.database else ""
    if not report.counts:
        typer.echo(f"{report.file}{what}: clean")
        return
    totals = ", ".join(numbered(report.total(level), level) for level in ("error", "warning"))
    typer.echo(f"{report.file}{what}: {totals}")
    for kind in sorted(report.counts, key=lambda name: (FINDING_KINDS[name] != "error", name)):
        listed = [finding for finding in report.findings if finding.kind == kind]
        for finding in listed:
            at = f":{finding.line}" if finding.line else ""
            text = f"{report.file}{at}: {finding.severity}: {kind}: {finding.message}"
            typer.echo(f"  {text}")
        more = report.counts[kind] - len(listed)
        if more > 0 and len(listed) == report.limit:
            typer.echo(f"  ... and {more} more of {kind}")
