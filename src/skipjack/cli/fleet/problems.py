"""``skipjack import`` and ``skipjack problems``: the problems of the fleet's store."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import replace
from io import BytesIO
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from skipjack.cli.arguments import DtypeOption, JsonOption, LayoutOption, examples, the_store
from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.fleet.problem_import import ImportOptions, ImportReport
    from skipjack.fleet.store import Problems
    from skipjack.settings import Settings


# ``skipjack problems``: the problems of the fleet's store and their tags.

app = typer.Typer(
    help="List and tag imported problems.",
    epilog=examples(
        "skipjack problems list -t resnet",
        "skipjack problems show relu:64",
        "skipjack problems tag relu:64 relu:128 -t nightly --recurrent",
        "skipjack problems tag relu:64 -t nightly --calls 5000",
        "skipjack problems untag relu:64 -t nightly",
    ),
    no_args_is_help=True,
    rich_markup_mode=None,
)
KeysArgument = Annotated[list[str], typer.Argument(help="Problem keys.")]
TagOption = Annotated[str, typer.Option("-t", "--tag", help="The tag.")]


@app.command("list", epilog=examples("skipjack problems list --operation 'conv*' --recurrent"))
def list_problems(
    tag: Annotated[
        str | None, typer.Option("-t", "--tag", help="Only problems with this tag.")
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option(help="Only these operations, separated by commas: conv2d,conv3d, or 'conv*'."),
    ] = None,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="Only recurrent problems.")
    ] = False,
    retired: Annotated[bool, typer.Option("--retired", help="Only retired problems.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of problems to list.")] = 50,
    json: JsonOption = False,
) -> None:
    """List problems with tags, source, model and last measurement."""
    from skipjack.fleet.labels import operations_named
    from skipjack.fleet.store import ProblemFilter
    from skipjack.report.fleet import print_problems

    wanted = tuple(name.strip() for name in operation.split(",")) if operation else ()
    which = ProblemFilter(tag, operations_named(wanted), recurrent, retired)
    with the_store(to_read=True) as store:
        found = store.problems.listed(which, limit + 1)
    print_problems(found[:limit], json)
    if len(found) > limit and not json:
        typer.echo(f"skipjack: not all are listed; --limit {10 * limit} lists more", err=True)


@app.command("show", epilog=examples("skipjack problems show relu:64 --json"))
def show(
    problem: Annotated[str, typer.Argument(help="A problem key.")], json: JsonOption = False
) -> None:
    """Show the tags of a problem, and its newest result on each device."""
    from skipjack.operations import parse
    from skipjack.report.fleet import print_problem

    key = parse(problem).key
    with the_store(to_read=True) as store:
        found, results = store.problems.get(key)
    print_problem(found, results, json)


@app.command("tag", epilog=examples("skipjack problems tag relu:64 -t nightly --recurrent"))
def tag_problems(
    problems: KeysArgument,
    tag: TagOption,
    recurrent: Annotated[
        bool,
        typer.Option(
            "--recurrent", help="Mark them to be tuned repeatedly, by skipjack load --recurrent."
        ),
    ] = False,
    source: Annotated[str, typer.Option(help="Where they come from.")] = "",
    model: Annotated[str, typer.Option(help="The network that they belong to.")] = "",
    calls: Annotated[
        float | None,
        typer.Option(help="How often a program calls each of them, for run --device-seconds."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Give problems a tag; what it recorded about them before is kept."""
    from skipjack.fleet.store import Provenance

    if calls is not None and not 0.0 <= calls < inf:
        raise UsageError(f"--calls is {calls:g}; give a finite number, 0 or above")
    keys = _keys(problems)
    with the_store() as store:
        changed = store.problems.tag(keys, Provenance(tag, recurrent, source, model))
        if calls is not None:
            store.problems.set_calls(dict.fromkeys(keys, calls), tag)
    _say("tagged", changed, len(keys) - changed, f"had {tag} before", json)


@app.command("untag", epilog=examples("skipjack problems untag relu:64 -t nightly"))
def untag_problems(problems: KeysArgument, tag: TagOption, json: JsonOption = False) -> None:
    """Remove a tag from problems; the problems and their jobs are kept."""
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


# ``skipjack import``: problems from lists, logs and other programs' databases.

IMPORT_EXAMPLES = examples(
    "skipjack import -f all.txt -t resnet -b 32,64,128",
    "skipjack import -f all.txt -t resnet --tag-only",
    'skipjack import -f c.txt -t x --recurrent --source "customer A" --model resnet50',
    "grep MIOpenDriver app.log | skipjack import -f - -t app --direction fwd",
    "skipjack import ./dump -t train",
    "skipjack import --lists",
    "skipjack import --list resnet50 -b 32,256 --direction all --layout NHWC",
)


def import_problems(
    dump: Annotated[
        Path | None,
        typer.Argument(help="A directory that ENABLE_TUNE_DUMP=True wrote, instead of a file."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "-f", "--file", help="A file of driver commands, keys or find-db lines; - for stdin."
        ),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("-t", "--tag", help="The tag to give them (the list's name)."),
    ] = None,
    built_in: Annotated[
        str | None, typer.Option("--list", help="A list that comes with Skipjack, such as llm.")
    ] = None,
    show_lists: Annotated[
        bool,
        typer.Option("--lists", help="Show the lists that come with Skipjack; import nothing."),
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option(
            "-b", "--batch", help="Import every problem with each of these batch sizes: 32,64."
        ),
    ] = None,
    tag_only: Annotated[
        bool, typer.Option("--tag-only", help="Tag known problems, and add no new ones.")
    ] = False,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="Tune them again whenever the tools change.")
    ] = False,
    source: Annotated[str, typer.Option(help="Where they come from, such as 'customer A'.")] = "",
    model: Annotated[str, typer.Option(help="The network that they belong to.")] = "",
    direction: Annotated[
        str | None,
        typer.Option(help="Direction of lines that have none: fwd, bwd, wrw or all."),
    ] = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write all bad lines to this file, as JSON lines.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Import problems; bad lines are listed with their reasons.

    All other lines are imported.
    """
    from skipjack import plugins

    pass
    from skipjack.fleet.problem_import import ImportOptions, import_file, parse_batches
    from skipjack.report.fleet import import_bar, render_import
    from skipjack.settings import load_settings

    if show_lists:
        _show_lists(json)
        return
    settings = load_settings()
    plugins.load(settings.plugins)
    if dump is not None and file is not None:
        raise UsageError("name either a dump to import or a file after -f, not both")
    if dump is not None and not dump.is_dir():
        raise UsageError(f"{dump} is not a directory, as dumps are; give files with -f")
    file, tag = _what(dump or file, tag, built_in)
    options = ImportOptions(
        tag=tag,
        batches=parse_batches(batch) if batch is not None else (),
        tag_only=tag_only,
        recurrent=recurrent,
        source=source,
        model=model,
        direction=direction.lower() if direction else None,
        dtype=dtype,
        layout=layout.upper() if layout else None,
        report=report,
    )
    taken: ImportedDump | None = None
    with the_store() as store:
        if dump is None:
            with import_bar(enabled=not json) as observe:
                done = import_file(store.problems, file, options, progress=observe)
        else:
            taken = import_dump(store.problems, dump, options, settings)
            done = taken.report
    render_import(done, json)
    if not done.understood and done.lines > done.blank:
        raise SkipjackError(f"no line of {file} is a problem; see skipjack import --help")
    if taken is not None:
        _finish_dump(taken, tag)


def _finish_dump(taken: ImportedDump, tag: str) -> None:
    """Print what was left out, and how to make jobs of the rest."""
    for sentence in taken.damaged:
        typer.echo(f"skipjack: {sentence}", err=True)
    for device in taken.devices:
        how = f"skipjack load -t {shlex.quote(tag)} -l {shlex.quote(tag)} --device {device}"
        typer.echo(f"skipjack: {how} makes jobs of them, the most valuable first", err=True)
    if taken.damaged:
        raise typer.Exit(1)


def _show_lists(json: bool) -> None:
    """A line for each: its name, how many problems it has, and what they are of."""
    from skipjack import lists
    from skipjack.report import print_json

    for name in lists.names():
        lines = lists.path_of(name).read_text(encoding="utf-8").splitlines()
        about = next((line[1:].strip() for line in lines if line.startswith("#")), "")
        problems = sum(bool(line) and not line.startswith("#") for line in lines)
        if json:
            record = {"list": name, "problems": problems, "about": about}
            print_json("import --lists", record)
        else:
            typer.echo(f"{name}: {numbered(problems, 'problem')}. {about}")


def _what(file: Path | None, tag: str | None, built_in: str | None) -> tuple[Path, str]:
    """The file to read, and the tag for its problems."""
    from skipjack import lists

    if (file is None) == (built_in is None):
        raise UsageError(
            "give either a file with -f or a list with --list; --lists shows the lists"
        )
    if tag == "" or (tag is None and built_in is None):
        raise UsageError("no tag given to find the problems by; add -t TAG")
    return file or lists.path_of(built_in or ""), tag or built_in or ""


# ``skipjack import DIR``: the problems of a dump for the fleet, most valuable first.


class ImportedDump(NamedTuple):
    """The result of importing a dump."""

    report: ImportReport
    damaged: tuple[str, ...]
    """A sentence about each folder that cannot be used."""
    devices: tuple[str, ...]
    """The devices that the program ran on, the one with the most to save first."""


def import_dump(
    problems: Problems, folder: Path, options: ImportOptions, settings: Settings
) -> ImportedDump:
    """Import the problems of a dump; jobs of new problems are done in this order."""
    from skipjack.fleet.problem_import import import_lines
    from skipjack.runtime.dumps import most_valuable_first, read_dump

    contents = read_dump(folder)
    valued = most_valuable_first(contents, settings)
    keys = dict.fromkeys(one.problem.key for one in valued)
    lines = BytesIO("".join(f"{key}\n" for key in keys).encode())
    report = import_lines(problems, lines, replace(options, in_order=True))
    calls: Counter[str] = Counter()
    for one in valued:
        calls[one.problem.key] += one.dumped.calls
    problems.set_calls({key: float(count) for key, count in calls.items()}, options.tag)
    devices = dict.fromkeys(one.dumped.device for one in valued)
    return ImportedDump(report, contents.damaged, tuple(devices))
