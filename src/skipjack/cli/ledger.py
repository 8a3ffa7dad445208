"""``skipjack ledger``: everything that was tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import DtypeOption, JsonOption, ProblemArgument, examples
from skipjack.cli.bank_removal import DryRunOption
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.bank import Bank
    from skipjack.ledger import CandidateKey, Ledger


# ``skipjack ledger gc``: removes rows that no entry, verdict or study needs any more.

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
        float, typer.Option(min=0.0, help="Keep rows of the last DAYS days (1).")
    ] = 1.0,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove rows that no bank entry, verdict or study needs: old logs, samples, builds.

    It may run at the same time as tunings. The machine code of removed builds is deleted from the
    kernel cache.
    """
    from datetime import timedelta
    from time import time_ns

    from skipjack.bank import Bank
    from skipjack.ledger import FILE_NAME, Ledger
    from skipjack.report import print_fields, print_json
    from skipjack.runtime.local_kernels import release_kernels
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
        record = {"dry_run": dry_run, "rows": dict(found.rows), **sizes, **freed}
        print_json("ledger gc", record)
        return
    verb = "would be removed" if dry_run else "removed"
    print_fields([(str(count), _WORDS[table]) for table, count in found.rows.items()])
    if not found.rows:
        typer.echo("the ledger has no rows that are not needed")
        return
    kernels = f"{numbered(released.kernels, 'kernel')} ({released.bytes:,} bytes)"
    typer.echo(f"{verb}, with {kernels} from the cache")
    if not dry_run:
        typer.echo(f"{file}: {before:,} bytes before, {sizes['bytes_after']:,} now")


def _named_by(bank: Bank) -> Iterator[CandidateKey]:
    """The configs of entries and of their rankings."""
    from skipjack.core import Config
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


# ``skipjack ledger``: everything that was tried.

_SWEEP = "sweep:"
_NAMED_ROWS = 8
"""How many of the rows that a merge left out are named."""

app = typer.Typer(
    help="All that was tried: studies, builds, measurements, verdicts.",
    epilog=examples(
        "skipjack ledger summary",
        "skipjack ledger show matmul:192x192x192 --limit 5",
        "skipjack ledger merge colleague/ledger.sqlite",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "show",
    epilog=examples("skipjack ledger show matmul:192x192x192", "skipjack ledger show sweep:rnnt"),
)
def show(
    problem: ProblemArgument,
    dtype: DtypeOption = None,
    limit: Annotated[int, typer.Option(min=1, help="How many trials to list for each study.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show the studies of a problem or a sweep, best trials first, and the verdicts."""
    from skipjack import plugins
    from skipjack.errors import SkipjackError
    from skipjack.ledger import Ledger
    from skipjack.operations import parse
    from skipjack.report import print_json, print_problem, problem_records
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    with Ledger.read(settings.user_dir) as ledger:
        if problem.startswith(_SWEEP):
            keys = _sweeps(ledger, problem)
        else:
            keys = [parse(problem, dtype).key]
        if not any(ledger.studies(key) for key in keys):
            again = "sweep" if problem.startswith(_SWEEP) else f"tune {keys[0]}"
            raise SkipjackError(f"the ledger has nothing on {problem}; try skipjack {again}")
        for key in keys:
            if json:
                for record in problem_records(ledger, key):
                    print_json("ledger show", record)
            else:
                print_problem(ledger, key, limit)


def _sweeps(ledger: Ledger, text: str) -> list[str]:
    """The keys of sweeps by name, ``sweep:rnnt``, or by their whole key."""
    keys = dict.fromkeys(study.problem for study in ledger.studies())
    return [key for key in keys if key == text or key.startswith(f"{text}@")]


@app.command("summary", epilog=examples("skipjack ledger summary"))
def summary(json: JsonOption = False) -> None:
    """Count what the ledger holds."""
    from dataclasses import asdict

    from skipjack.ledger import Ledger
    from skipjack.report import print_fields, print_json
    from skipjack.settings import load_settings

    with Ledger.read(load_settings().user_dir) as ledger:
        counts = asdict(ledger.summary())
    if json:
        print_json("ledger summary", counts)
        return
    print_fields([(name, str(count)) for name, count in counts.items()])


@app.command("merge", epilog=examples("skipjack ledger merge colleague/ledger.sqlite"))
def merge(
    file: Annotated[Path, typer.Argument(help="Another ledger's file.")], json: JsonOption = False
) -> None:
    """Merge another ledger into this one. Merging it twice changes nothing."""
    from skipjack.ledger import Ledger
    from skipjack.reading import numbered
    from skipjack.report import print_json
    from skipjack.settings import load_settings
    from skipjack.storage import user_directory

    with Ledger.open(user_directory(load_settings())) as ledger:
        merged = ledger.merge(file)
    if json:
        print_json("ledger merge", {"rows": merged.rows, "left_out": list(merged.left_out)})
        return
    hint = "; skipjack bank rebuild adds new verdicts to the bank" if merged.rows else ""
    typer.echo(f"{numbered(merged.rows, 'new row')}{hint}")
    if merged.left_out:
        typer.echo(
            f"left out {numbered(len(merged.left_out), 'row')} of {file} that cannot be used:"
        )
        for one in merged.left_out[:_NAMED_ROWS]:
            typer.echo(f"  {one}")
        if (more := len(merged.left_out) - _NAMED_ROWS) > 0:
            typer.echo(f"  and {more} more")


app.command("gc", epilog=examples("skipjack ledger gc --dry-run", "skipjack ledger gc --days 30"))(
    collect_rows
)
