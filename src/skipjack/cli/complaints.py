"""What the parser of command lines says, as the beginning of a sentence."""

from __future__ import annotations

import typer

BadRequest: type[Exception] = typer.BadParameter.__bases__[0]
"""What every complaint about options, arguments and commands descends from."""


def complaint_text(error: Exception) -> str:
    """The complaint without its full stop; that of a group without a command is its help."""
    text = str(getattr(error, "format_message", lambda: error)()).rstrip(".")
    return text if "\n" in text else f"{text[:1].lower()}{text[1:]}"
