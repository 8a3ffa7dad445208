"""The parser of command lines: how it lists commands, its complaints, and which values it converts.

Typer creates a pydantic validator for every parameter of a command, given or not, and importing
pydantic takes a tenth of a second, a quarter of the time of `skipjack status`. Here, options that
are not given keep their defaults as written; only given values are converted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, ParamSpec

import typer
from typer.core import TyperGroup

BadRequest: type[Exception] = typer.BadParameter.__bases__[0]
"""The base class of all complaints about options, arguments and commands."""

Work = Callable[[], None]
"""What a command does, once its request is known to be valid."""
Options = ParamSpec("Options")
_ASKING = "asking"


def in_two_steps(ask: Callable[Options, Work]) -> Callable[Options, None]:
    """Make a command of a function that turns options into a request and returns the work to do.

    The first step reads no file and opens nothing, so that a plan can take it for each of its
    commands before any of them runs.
    """

    @wraps(ask)
    def command(*arguments: Options.args, **options: Options.kwargs) -> None:
        ask(*arguments, **options)()

    command.__dict__[_ASKING] = ask
    return command


def first_step_of(command: Callable[..., object]) -> Callable[..., Work] | None:
    """The function that makes a command's request; None if the command has no such step."""
    found: Callable[..., Work] | None = getattr(command, _ASKING, None)
    return found


_BOUNDS = {
    re.compile(r"Input should be greater than or equal to (\S+)"): r"give \1 or more",
    re.compile(r"Input should be less than or equal to (\S+)"): r"give \1 or less",
    re.compile(r"Input should be "): "give ",
}
"""The library's sentences about numbers, and those that replace them."""


class CommandList(TyperGroup):
    """A group whose help lists commands by task, with their first sentences in full."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each task, which Typer calls a panel."""
        tasks: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            about = command.short_help or _first_paragraph(command.help or "")
            task = getattr(command, "rich_help_panel", None)
            title = task if isinstance(task, str) else "Commands"
            tasks.setdefault(title, []).append((name, about))
        wide = max(map(len, self.commands))
        for title, rows in tasks.items():
            with formatter.section(title):
                # All sections have the same columns.
                formatter.write_dl([(f"{name:<{wide}}", about) for name, about in rows])


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())


def complaint_text(error: Exception) -> str:
    """The complaint without its full stop; if a group got no command, the group's help."""
    text = str(getattr(error, "format_message", lambda: error)()).rstrip(".")
    for theirs, ours in _BOUNDS.items():
        text = theirs.sub(ours, text)
    return text if "\n" in text else f"{text[:1].lower()}{text[1:]}"


def keep_defaults(command: Any) -> None:
    """Change a parsed application or command so that defaults are not converted."""
    for child in getattr(command, "commands", {}).values():
        keep_defaults(child)
    command.get_params = partial(_changed, command.get_params)  # which adds `--help`


def _changed(get_params: Callable[[Any], list[Any]], context: Any) -> list[Any]:
    parameters = get_params(context)
    for parameter in parameters:
        if not parameter.required and not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_process, parameter, parameter.process_value)
    return parameters


def _process(
    parameter: Any, convert: Callable[[Any, Any], Any], context: Any, value: object
) -> object:
    if value is None:
        kept: object = () if parameter.multiple or parameter.nargs == -1 else None
    elif value is parameter.default and isinstance(value, bool | int | float | str):
        kept = value
    else:
        return convert(context, value)
    return kept if parameter.callback is None else parameter.callback(context, parameter, kept)
