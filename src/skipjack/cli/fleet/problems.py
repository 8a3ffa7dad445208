"""``skipjack problems``: the problems of the fleet's store and their tags."""

from __future__ import annotations

from typing import Annotated

import typer

from skipjack.cli.fleet.options import the_store
from skipjack.cli.options import JsonOption, examples

app = typer.Typer(
    help="Imported problems: their tags, and what measured them last.",
    epilog=examples(
        "skipjack problems list -t resnet",
        "skipjack problems show relu:64",
        "skipjack problems tag relu:64 relu:128 -t nightly --recurrent",
        "skipjack problems untag relu:64 -t nightly",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
KeysArgument = Annotated[list[str], typer.Argument(help="Problem keys.")]
TagOption = Annotated[str, typer.Option("-t", "--tag", help="Name of the tag.")]


@app.command("list", epilog=examples("skipjack problems list --operation 'conv*' --recurrent"))
def list_problems(
    tag: Annotated[str | None, typer.Option("-t", "--tag", help="Only with this tag.")] = None,
    operation: Annotated[
        str | None,
        typer.Option(help="Only these, with commas between: conv2d,conv3d, or 'conv*'."),
    ] = None,
    recurrent: Annotated[bool, typer.Option("--recurrent", help="Only recurrent ones.")] = False,
    retired: Annotated[bool, typer.Option("--retired", help="Only retired ones.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Problems to list at most.")] = 50,
    json: JsonOption = False,
) -> None:
    """List problems with tags, source and model, and when and by what each was last measured."""
    from skipjack.fleet.loading import operations_named
    from skipjack.fleet.store import ProblemFilter
    from skipjack.report.fleet.problems import print_problems

    wanted = tuple(name.strip() for name in operation.split(",")) if operation else ()
    which = ProblemFilter(tag, operations_named(wanted), recurrent, retired)
    with the_store(to_read=True) as store:
        found = store.problems.listed(which, limit + 1)
    print_problems(found[:limit], json)
    if len(found) > limit and not json:
        typer.echo(f"skipjack: there are more; --limit {10 * limit} shows more of them", err=True)


@app.command("show", epilog=examples("skipjack problems show relu:64 --json"))
def show(
    problem: Annotated[str, typer.Argument(help="A problem key.")], json: JsonOption = False
) -> None:
    """Show what each tag says of a problem, and its newest result on each device."""
    from skipjack.operations import parse
    from skipjack.report.fleet.problems import print_problem

    key = parse(problem).key
    with the_store(to_read=True) as store:
        found, results = store.problems.get(key)
    print_problem(found, results, json)


@app.command("tag", epilog=examples("skipjack problems tag relu:64 -t nightly --recurrent"))
def tag_problems(
    problems: KeysArgument,
    tag: TagOption,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="To be tuned again and again: load --recurrent.")
    ] = False,
    source: Annotated[str, typer.Option(help="Where they came from.")] = "",
    model: Annotated[str, typer.Option(help="The network that they are of.")] = "",
    json: JsonOption = False,
) -> None:
    """Give problems a tag; what it said of them before stays."""
    from skipjack.fleet.store import Provenance

    keys = _keys(problems)
    with the_store() as store:
        changed = store.problems.tag(keys, Provenance(tag, recurrent, source, model))
    _say("tagged", changed, len(keys) - changed, f"had {tag} before", json)


@app.command("untag", epilog=examples("skipjack problems untag relu:64 -t nightly"))
def untag_problems(problems: KeysArgument, tag: TagOption, json: JsonOption = False) -> None:
    """Take a tag from problems; they and their jobs stay."""
    keys = _keys(problems)
    with the_store() as store:
        changed = store.problems.untag(keys, tag)
    _say("untagged", changed, len(keys) - changed, f"did not have {tag}", json)


def _keys(problems: list[str]) -> list[str]:
    from skipjack.operations import parse

    return list(dict.fromkeys(parse(problem).key for problem in problems))


def _say(verb: str, changed: int, others: int, why: str, json: bool) -> None:
    from skipjack.reading import numbered
    from skipjack.report import print_json

    if json:
        print_json("problems tag", {verb: changed, "unchanged": others})
        return
    note = f"; {others} {why}" if others else ""
    typer.echo(f"{numbered(changed, 'problem')} {verb}{note}")
