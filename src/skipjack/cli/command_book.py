"""Descriptions of all commands, for plans and for tests of the documentation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import typer

from skipjack.cli.arguments import BadRequest, Work, complaint_text, first_step_of
from skipjack.errors import SkipjackError, UsageError
from skipjack.plans import CommandBook, CommandParameter, Complaint, PlanCommand


def command_book(app: typer.Typer) -> CommandBook:
    """All commands of an application by name."""
    # The parser's classes are not public and differ between versions; their attributes do not.
    root: Any = typer.main.get_command(app)
    return {command.name: command for command in _below(root, ())}


def _below(parsed: Any, words: tuple[str, ...]) -> Iterator[PlanCommand]:
    if hasattr(parsed, "commands"):
        for name, child in parsed.commands.items():
            yield from _below(child, (*words, name))
        return
    parameters = tuple(_parameter(one) for one in parsed.params)
    asking = first_step_of(parsed.callback)

    def parse(arguments: Sequence[str]) -> Complaint | None:
        name = " ".join(words)
        return _try(parsed, name, arguments) or (asking and _ask(asking, name, arguments))

    yield PlanCommand(words, parameters, parse)


def _parameter(one: Any) -> CommandParameter:
    if one.param_type_name == "argument":
        return CommandParameter(
            name=one.name.replace("_", "-"),
            repeatable=one.nargs == -1,
            width=max(one.nargs, 1),
            required=bool(one.required),
        )
    longs = [word for word in one.opts if word.startswith("--")]
    shorts = [word.lstrip("-") for word in one.opts if not word.startswith("--")]
    word = longs[0] if longs else one.opts[0]
    return CommandParameter(
        name=word.lstrip("-").replace("_", "-"),
        word=word,
        off_word=one.secondary_opts[0] if one.secondary_opts else "",
        flag=bool(one.is_flag),
        repeatable=bool(one.multiple),
        width=max(one.nargs, 1),
        required=bool(one.required),
        short=shorts[0] if shorts else "",
    )


def _try(parsed: Any, name: str, arguments: Sequence[str]) -> Complaint | None:
    """The parser's complaint, if any; values are converted and checked, nothing is started."""
    try:
        parsed.make_context(name, list(arguments))
    except BadRequest as error:
        about = getattr(error, "param", None)
        named = _parameter(about).name if about is not None else ""
        return Complaint(complaint_text(error), named)
    return None


def _ask(asking: Callable[..., Work], name: str, arguments: Sequence[str]) -> Complaint | None:
    """The complaint about the request that these arguments make, if any; nothing is started."""
    alone = typer.Typer(add_completion=False)
    alone.command()(asking)
    parsed: Any = typer.main.get_command(alone)
    context = parsed.make_context(name, list(arguments))
    try:
        with context:
            parsed.invoke(context)
    except UsageError as error:
        return Complaint(str(error))
    except SkipjackError:  # this machine's state, such as a missing driver: the step will report it
        return None
    return None
