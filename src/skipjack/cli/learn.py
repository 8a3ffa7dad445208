"""``skipjack learn``: models from ledgers, for searches and for problems that nobody tuned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, check_outputs, examples

if TYPE_CHECKING:
    from skipjack.app import LearnRequest

FromOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--from", help="A ledger or a user directory to learn from; repeatable. Default: your own."
    ),
]
KindOption = Annotated[
    str | None,
    typer.Option("--device", help="Only trials of this device or architecture, as sm_90/132."),
]
OperationOption = Annotated[
    list[str] | None,
    typer.Option("--operation", help="Only this operation, as matmul or conv2d; repeatable."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", help="The directory whose folder models is written to. Default: your own."
    ),
]

app = typer.Typer(
    help="Fit models to the trials of ledgers: which configs are fast.",
    epilog=examples(
        "skipjack learn ranker --from ledger.sqlite",
        "skipjack learn heuristic --device sm_90/132",
        "skipjack learn report -o learned.html",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(
    "ranker",
    epilog=examples(
        "skipjack learn ranker",
        "skipjack learn ranker --from ledger.sqlite --from colleague/ledger.sqlite",
        "skipjack tune matmul:200x300x400 --searcher model",
    ),
)
def ranker(
    ledgers: FromOption = None,
    device: KindOption = None,
    operation: OperationOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Fit what scores configs before they are measured; searches with --searcher model use it.

    A ranker is fitted for each group of operations (products, convolutions, ...) and each kind of
    device (CPUs by the width of their vectors, GPUs by architecture) in the ledgers.
    """
    from skipjack.app import learn_rankers
    from skipjack.report import print_json, print_models

    models = learn_rankers(_request(ledgers, device, operation, output), _tell(json))
    if json:
        for model in models:
            print_json("learn ranker", model.record())
    else:
        print_models(models)


@app.command(
    "heuristic",
    epilog=examples(
        "skipjack learn heuristic",
        "skipjack learn heuristic --device sm_90/132 --from ledger.sqlite",
        "skipjack bank why matmul:123x456x789",
    ),
)
def heuristic(
    ledgers: FromOption = None,
    device: KindOption = None,
    operation: OperationOption = None,
    output: OutputOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Keep it even if it is not shown to be better.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Train what answers a lookup of a problem that no bank knows, in microseconds.

    It is kept only if, on shapes held out, it is better than the first proposals of solvers and
    than the configs of the nearest shapes. Programs use it from then on: see skipjack bank why.
    """
    from skipjack.app import learn_heuristics
    from skipjack.report import print_json, print_models

    request = _request(ledgers, device, operation, output, force)
    models = learn_heuristics(request, _tell(json))
    if json:
        for model in models:
            print_json("learn heuristic", model.record())
    else:
        print_models(models)
    if not any(model.path for model in models):
        raise typer.Exit(1)


@app.command(
    "report",
    epilog=examples(
        "skipjack learn report -o learned.html",
        "skipjack learn report --from ledger.sqlite --operation matmul -o products.html",
    ),
)
def report(
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")],
    ledgers: FromOption = None,
    device: KindOption = None,
    operation: OperationOption = None,
    json: JsonOption = False,
) -> None:
    """Write what models learn: what mattered, what pruning loses, regret by family of shapes.

    One page without scripts, for each group of operations and kind of device in the ledgers: the
    data card, importance and partial dependence of features, and figures on shapes held out.
    """
    from skipjack.app import learning_reports
    from skipjack.report import learning_document, print_json
    from skipjack.report.documents import write_document

    check_outputs(output)
    request = _request(ledgers, device, operation, None)
    reports = learning_reports(request, _tell(json))
    write_document(learning_document(reports), output)
    if json:
        for one in reports:
            print_json("learn report", one.record() | {"path": str(output)})
    else:
        typer.echo(f"{output} is written")


def _request(
    ledgers: list[Path] | None,
    device: str | None,
    operations: list[str] | None,
    output: Path | None,
    force: bool = False,
) -> LearnRequest:
    from skipjack.app import LearnRequest

    return LearnRequest(tuple(ledgers or ()), device, tuple(operations or ()), output, force)


def _tell(json: bool) -> Callable[[str], None]:
    """Shows progress on standard error."""

    def tell(text: str) -> None:
        typer.echo(text, err=True)

    return (lambda _: None) if json else tell
