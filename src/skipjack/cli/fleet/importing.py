"""``skipjack import``: problems from lists, logs and databases of others."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import the_store
from skipjack.cli.options import DtypeOption, JsonOption, LayoutOption, examples
from skipjack.errors import SkipjackError, UsageError
from skipjack.reading import numbered

if TYPE_CHECKING:
    from skipjack.cli.dumps import ImportedDump

EXAMPLES = examples(
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
        typer.Option("-f", "--file", help="Commands, keys, find-db lines; - for stdin."),
    ] = None,
    tag: Annotated[
        str | None,
        typer.Option("-t", "--tag", help="What to find them by later; the list's name, if any."),
    ] = None,
    built_in: Annotated[
        str | None, typer.Option("--list", help="A list that comes with Skipjack, as llm.")
    ] = None,
    show_lists: Annotated[
        bool, typer.Option("--lists", help="Show which lists come with Skipjack, and import none.")
    ] = False,
    batch: Annotated[
        str | None,
        typer.Option("-b", "--batch", help="Take every problem with these batch sizes: 32,64."),
    ] = None,
    tag_only: Annotated[
        bool, typer.Option("--tag-only", help="Tag problems that are known and add none.")
    ] = False,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="Tune them again whenever the tools change.")
    ] = False,
    source: Annotated[str, typer.Option(help="Where they come from, as 'customer A'.")] = "",
    model: Annotated[str, typer.Option(help="Of which network they are.")] = "",
    direction: Annotated[
        str | None,
        typer.Option(help="What it means that a line names none: fwd, bwd, wrw or all."),
    ] = None,
    dtype: DtypeOption = None,
    layout: LayoutOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write all bad lines to this file, as JSON lines.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Take problems in; bad lines are listed with their reasons.

    The good lines beside them are kept.
    """
    from skipjack import plugins
    from skipjack.cli.dumps import import_dump
    from skipjack.fleet.importing import ImportOptions, import_file, parse_batches
    from skipjack.report.fleet.importing import import_bar, render_import
    from skipjack.settings import load_settings

    if show_lists:
        _show_lists(json)
        return
    settings = load_settings()
    plugins.load(settings.plugins)
    if dump is not None and file is not None:
        raise UsageError("say either which dump to import, or which file after -f")
    if dump is not None and not dump.is_dir():
        raise UsageError(f"{dump} is no directory, which a dump is; import a file after -f")
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
        raise SkipjackError(f"no line of {file} is a problem; skipjack import --help says more")
    if taken is not None:
        _finish_dump(taken, tag)


def _finish_dump(taken: ImportedDump, tag: str) -> None:
    """Say what was left out, and how jobs are made of the rest."""
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
            told = {"list": name, "problems": problems, "about": about}
            print_json("import --lists", told)
        else:
            typer.echo(f"{name}: {numbered(problems, 'problem')}. {about}")


def _what(file: Path | None, tag: str | None, built_in: str | None) -> tuple[Path, str]:
    """The file to read, and the tag of what is in it."""
    from skipjack import lists

    if (file is None) == (built_in is None):
        raise UsageError(
            "say either which file to import, after -f, or which --list; --lists shows them"
        )
    if tag == "" or (tag is None and built_in is None):
        raise UsageError("no tag to find the problems by later; name one after -t")
    return file or lists.path_of(built_in or ""), tag or built_in or ""
