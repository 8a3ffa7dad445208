"""``skipjack ledger gc``: what no entry, verdict or study needs any more goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import JsonOption
from skipjack.cli.upkeep.entries import DryRunOption
from skipjack.reading import numbered

if TYPE_CHECKING:
    from pathlib import Path

    from skipjack.bank import Bank
    from skipjack.ledger import CandidateKey

_WORDS = {
    "study_log": "lines of logs",
    "epochs": "earlier runs of studies",
    "measurements": "measurements",
    "candidate_builds": "links to builds",
    "builds": "builds",
    "candidates": "candidates",
    "studies": "studies",
    "protocols": "protocols",
}


def collect_rows(
    days: Annotated[
        float, typer.Option(min=0.0, help="Keep what was written in the last days (1).")
    ] = 1.0,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Drop what no entry of the bank, verdict or study needs: old logs, samples, builds.

    It may run beside tunings. The machine code of builds that go is removed from the kernel cache.
    """
    from datetime import timedelta
    from time import time_ns

    from skipjack.bank import Bank
    from skipjack.ledger import FILE_NAME, Ledger
    from skipjack.report import print_fields, print_json
    from skipjack.runtime import release_kernels
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory, utc_now

    settings = load_settings()
    directory = user_directory(settings)
    began_ns = time_ns()
    named = list(_named_by(Bank.open(directory)))
    file = directory / FILE_NAME
    before = _size(file)
    with Ledger.open(directory) as ledger:
        since = utc_now() - timedelta(days=days)
        found = ledger.collect(named, before=since, dry_run=dry_run)
    released = release_kernels(settings, found.artifacts, began_ns, dry_run=dry_run)
    sizes = {"bytes_before": before, "bytes_after": _size(file)}
    if json:
        freed = {"kernels": released.kernels, "kernel_bytes": released.bytes}
        told = {"dry_run": dry_run, "rows": dict(found.rows), **sizes, **freed}
        print_json("ledger gc", told)
        return
    verb = "would be removed" if dry_run else "removed"
    print_fields([(str(count), _WORDS[table]) for table, count in found.rows.items()])
    if not found.rows:
        typer.echo("there is nothing in the ledger that is not needed")
        return
    kernels = f"{numbered(released.kernels, 'kernel')} ({released.bytes:,} bytes)"
    typer.echo(f"{verb}, with {kernels} from the cache")
    if not dry_run:
        typer.echo(f"{file}: {before:,} bytes before, {sizes['bytes_after']:,} now")


def _named_by(bank: Bank) -> Iterator[CandidateKey]:
    """The configs of entries, and those that their rankings list."""
    from skipjack.core.config import Config
    from skipjack.ledger import CandidateKey

    for entry in bank.all_entries():
        key = Config(dict(entry.config)).key
        yield CandidateKey(entry.problem, entry.solver, entry.solver_version, key)
        for row in entry.evidence.ranking:
            version, config = row.get("version"), row.get("config")
            if isinstance(version, int) and isinstance(config, dict):
                solver = str(row.get("solver"))
                yield CandidateKey(entry.problem, solver, version, Config(config).key)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
