"""``skipjack ledger``: everything that was tried."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.options import DtypeOption, JsonOption, ProblemArgument, examples
from skipjack.cli.upkeep import collect_rows

if TYPE_CHECKING:
    from skipjack.ledger import Ledger

_SWEEP = "sweep:"
_NAMED_ROWS = 8
"""Of those that a merge left out."""

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
    limit: Annotated[int, typer.Option(min=1, help="Most trials to list of each study.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show the studies of a problem or a sweep, best trials first, and the verdicts."""
    from skipjack import plugins
    from skipjack.errors import SkipjackError
    from skipjack.ledger import Ledger
    from skipjack.operations import parse
    from skipjack.report import print_json
    from skipjack.report.ledger import print_problem, problem_records
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
            raise SkipjackError(f"the ledger knows nothing of {problem}; try skipjack {again}")
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
    """Take in another ledger. Doing it twice changes nothing."""
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
    hint = "; skipjack bank rebuild takes new verdicts into the bank" if merged.rows else ""
    typer.echo(f"{numbered(merged.rows, 'new row')}{hint}")
    if merged.left_out:
        typer.echo(
            f"left out, {numbered(len(merged.left_out), 'row')} of {file} that cannot be used:"
        )
        for one in merged.left_out[:_NAMED_ROWS]:
            typer.echo(f"  {one}")
        if (more := len(merged.left_out) - _NAMED_ROWS) > 0:
            typer.echo(f"  and {more} more")


app.command("gc", epilog=examples("skipjack ledger gc --dry-run", "skipjack ledger gc --days 30"))(
    collect_rows
)
