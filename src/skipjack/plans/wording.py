"""The words of a command line out of a step's values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from skipjack.plans.commands import Command, Parameter
from skipjack.plans.document import Listing, Node, Scalar
from skipjack.plans.plan import Mistakes, truth_of


@dataclass(frozen=True, slots=True)
class Given:
    """What a step says about one parameter, and where."""

    parameter: Parameter
    node: Node
    line: int


def words_of(command: Command, given: Mapping[str, Given], mistakes: Mistakes) -> tuple[str, ...]:
    """Options in the command's own order, then its arguments.

    The order does not depend on the file's, so that the same step is always the same words.
    """
    options: list[str] = []
    arguments: list[str] = []
    left_out = ""
    for parameter in command.parameters:
        one = given.get(parameter.name)
        if one is None:
            left_out = left_out if parameter.word else parameter.name
        elif parameter.word:
            options += _option(one, mistakes)
        else:
            if left_out:
                mistakes.add(one.line, f"{parameter.name!r} is given without {left_out!r}")
            arguments += _values(one, mistakes)
    # Behind it nothing is an option, whatever it looks like.
    divider = ("--",) if any(word.startswith("-") for word in arguments) else ()
    return (*options, *divider, *arguments)


def well_formed(given: Given, path: Path) -> bool:
    """Whether it is something that its parameter can be given at all."""
    mistakes = Mistakes(path)
    (_option if given.parameter.word else _values)(given, mistakes)
    return not mistakes.found


def _option(given: Given, mistakes: Mistakes) -> list[str]:
    parameter = given.parameter
    if parameter.flag:
        return _flag(given, mistakes)
    values = _values(given, mistakes)
    if parameter.width > 1:
        return [parameter.word, *values]
    return [word for value in values for word in _pair(parameter.word, value)]


def _pair(word: str, value: str) -> tuple[str, ...]:
    # A value that looks like an option must not become one.
    return (f"{word}={value}",) if value.startswith("-") else (word, value)


def _flag(given: Given, mistakes: Mistakes) -> list[str]:
    parameter = given.parameter
    truth = truth_of(given.node)
    if truth is None:
        mistakes.add(given.line, f"{parameter.name!r} is a switch: true or false")
    word = parameter.word if truth else parameter.off_word
    return [word] if word else []


def _values(given: Given, mistakes: Mistakes) -> list[str]:
    """The texts for one parameter; as many as it takes."""
    parameter, node = given.parameter, given.node
    nodes = node.items if isinstance(node, Listing) else (node,)
    texts = [item.text for item in nodes if isinstance(item, Scalar) and not item.empty]
    if len(texts) != len(nodes):
        mistakes.add(given.line, f"{parameter.name!r} takes texts and numbers, nothing nested")
        return texts
    if any("\0" in text for text in texts):
        mistakes.add(
            given.line, f"{parameter.name!r} has a NUL in it, which no command can be given"
        )
    many = parameter.repeatable
    if parameter.width > 1 and len(texts) != parameter.width:
        mistakes.add(given.line, f"{parameter.name!r} takes {parameter.width} values in a list")
    elif parameter.width == 1 and not many and isinstance(node, Listing):
        mistakes.add(
            given.line,
            f"{parameter.name!r} takes one value, not a list; "
            "where it takes several, they stand in one text with commas between",
        )
    return texts
