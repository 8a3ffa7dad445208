"""Every step of a plan is checked against its command, and becomes a command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.core import digest_of
from skipjack.plans.commands import (
    CommandBook,
    CommandParameter,
    PlanCommand,
    did_you_mean,
    spelled,
)
from skipjack.plans.plan import CommandStep, Listing, Mistakes, Node, Plan, Scalar, Table, truth_of
from skipjack.plans.secrets import holds_a_secret, names_a_place, names_a_secret

# The arguments of a command line, made from a step's values.


@dataclass(frozen=True, slots=True)
class GivenValue:
    """The value that a step gives to a parameter, and its line."""

    parameter: CommandParameter
    node: Node
    line: int


def words_of(
    command: PlanCommand, given: Mapping[str, GivenValue], mistakes: Mistakes
) -> tuple[str, ...]:
    """Options in the command's own order, then its arguments.

    The order does not depend on that of the file, so that a step always has the same command line.
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
    # Everything after it is an argument, even if it looks like an option.
    divider = ("--",) if any(word.startswith("-") for word in arguments) else ()
    return (*options, *divider, *arguments)


def well_formed(given: GivenValue, path: Path) -> bool:
    """Whether a value is possible for its parameter."""
    mistakes = Mistakes(path)
    (_option if given.parameter.word else _values)(given, mistakes)
    return not mistakes.found


def _option(given: GivenValue, mistakes: Mistakes) -> list[str]:
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


def _flag(given: GivenValue, mistakes: Mistakes) -> list[str]:
    parameter = given.parameter
    truth = truth_of(given.node)
    if truth is None:
        mistakes.add(given.line, f"{parameter.name!r} is a switch; write true or false")
    word = parameter.word if truth else parameter.off_word
    return [word] if word else []


def _values(given: GivenValue, mistakes: Mistakes) -> list[str]:
    """The texts for one parameter."""
    parameter, node = given.parameter, given.node
    nodes = node.items if isinstance(node, Listing) else (node,)
    texts = [item.text for item in nodes if isinstance(item, Scalar) and not item.empty]
    if len(texts) != len(nodes):
        mistakes.add(given.line, f"{parameter.name!r} takes texts and numbers, nothing nested")
        return texts
    if any("\0" in text for text in texts):
        mistakes.add(
            given.line, f"{parameter.name!r} contains a NUL character, which no command accepts"
        )
    many = parameter.repeatable
    if parameter.width > 1 and len(texts) != parameter.width:
        mistakes.add(given.line, f"{parameter.name!r} takes {parameter.width} values in a list")
    elif parameter.width == 1 and not many and isinstance(node, Listing):
        mistakes.add(
            given.line,
            f"{parameter.name!r} takes one value, not a list; "
            "if it accepts several, write them as one text, separated by commas",
        )
    return texts


# Checks every step of a plan against its command, before the first one starts.

_CONFLICTS: Mapping[str, frozenset[str]] = {"device": frozenset({"arch", "units", "devices"})}
"""Options of a step that a default would contradict."""
_BY_HAND: Mapping[str, str] = {
    "image login": "reads a password from standard input, which steps do not have; log in by "
    "hand before you run the plan"
}
"""Commands that cannot be steps."""
_SHOWN = 200
_INPUT = "file"
"""The parameter for the file that a command reads."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that its command accepts."""

    number: int
    command: str
    argv: tuple[str, ...]
    """The arguments of ``skipjack``."""
    line: int
    name: str = ""
    enabled: bool = True
    inputs: tuple[tuple[str, int], ...] = ()
    """Files that it reads, with the lines that name them."""

    @property
    def digest(self) -> str:
        """Changes when the command line changes, not when the name or the spelling does."""
        return digest_of(self.argv)

    @property
    def title(self) -> str:
        """The step's name in messages."""
        return f"{self.name} ({self.command})" if self.name else self.command


def validate(plan: Plan, book: CommandBook, mistakes: Mistakes) -> tuple[PlannedStep, ...]:
    """The steps with their command lines; steps with unknown commands are left out."""
    defaults = _checked_defaults(plan, book, mistakes)
    planned = []
    for number, step in enumerate(plan.steps, start=1):
        command = _command(step, book, mistakes)
        if command is not None:
            planned.append(_planned(number, step, command, defaults, mistakes))
    return tuple(planned)


def check_inputs(steps: tuple[PlannedStep, ...], directory: Path, mistakes: Mistakes) -> None:
    """Check that input files of steps exist, or are named by an earlier step that may make them."""
    named: set[Path] = set()
    for step in (step for step in steps if step.enabled):
        for text, line in step.inputs:
            path = directory / text
            if text == "-":
                mistakes.add(line, "a step has no standard input; name a file")
            elif not _exists(path) and not named & {path, *path.parents}:
                mistakes.add(line, f"there is no file {text[:_SHOWN]} in {directory}")
        named |= {directory / word for word in step.argv}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # such a name is not possible, or the directory is not accessible
        return False


def _command(step: CommandStep, book: CommandBook, mistakes: Mistakes) -> PlanCommand | None:
    if step.command in _BY_HAND:
        mistakes.add(step.line, f"{step.command} {_BY_HAND[step.command]}")
        return None
    command = book.get(step.command)
    if command is not None:
        return command
    first = step.command.split(" ")[0]
    group = [name for name in book if name.startswith(f"{step.command} ")]
    if group:
        hint = f"; choose from {', '.join(group)}"
    elif first == "plan":
        hint = "; a plan cannot contain plans"
    elif step.command != first and first in book:
        hint = f"; write options below the command, such as - {first}: {{label: L}}"
    else:
        hint = did_you_mean(step.command, book) or "; see skipjack --help"
    mistakes.add(step.line, f"unknown command {step.command!r}{hint}")
    return None


def _checked_defaults(plan: Plan, book: CommandBook, mistakes: Mistakes) -> dict[str, Node]:
    """Defaults by key; each must apply to some step."""
    commands = [book[step.command] for step in plan.steps if step.command in book]
    defaults = {}
    for key, node in plan.defaults.entries:
        if _secret(key, node, mistakes):
            continue
        if not any(command.find(key.text) for command in commands):
            known = {one.name for command in commands for one in command.parameters}
            hint = did_you_mean(spelled(key.text), known)
            mistakes.add(key.line, f"no step accepts the default {key.text!r}{hint}")
        elif isinstance(node, Scalar) and node.empty:
            mistakes.add(key.line, f"the default {key.text!r} has no value")
        else:
            defaults[spelled(key.text)] = node
    return defaults


def _planned(
    number: int,
    step: CommandStep,
    command: PlanCommand,
    defaults: Mapping[str, Node],
    mistakes: Mistakes,
) -> PlannedStep:
    before = len(mistakes.found)
    step = _with_switches(step, command, mistakes)
    given = _given(step, command, defaults, mistakes)
    if len(mistakes.found) == before:
        _check_required(command, given, step.line, mistakes)
    words = words_of(command, given, mistakes)
    _try_words(command, given, step.line, mistakes, clean=len(mistakes.found) == before)
    return PlannedStep(
        number=number,
        command=command.name,
        argv=(*command.words, *words),
        line=step.line,
        name=step.name,
        enabled=step.enabled,
        inputs=_inputs(given),
    )


def _try_words(
    command: PlanCommand,
    given: Mapping[str, GivenValue],
    line: int,
    mistakes: Mistakes,
    *,
    clean: bool,
) -> None:
    """Collect the complaints of the command's parser, which names one parameter at a time.

    It is called again without that parameter. After the first mistake, only complaints about given
    values count, as a step without its wrong values may lack a required one.
    """
    left = {name: one for name, one in given.items() if well_formed(one, mistakes.path)}
    while complaint := command.parse(words_of(command, left, Mistakes(mistakes.path))):
        named = left.pop(complaint.parameter, None)
        if named is not None or clean:
            mistakes.add(named.line if named else line, f"{command.name}: {complaint.sentence}")
        clean = False
        if named is None or not named.parameter.word:  # without it, arguments would shift
            return


def _with_switches(step: CommandStep, command: PlanCommand, mistakes: Mistakes) -> CommandStep:
    """Accept `enabled` among the options, if the command has no option of that name."""
    inside = [(key, node) for key, node in step.values.entries if key.text == "enabled"]
    if not inside or command.find("enabled"):
        return step
    key, node = inside[0]
    truth = truth_of(node)
    if truth is None:
        mistakes.add(key.line, "enabled is true or false")
    left = tuple(entry for entry in step.values.entries if entry[0].text != "enabled")
    values = Table(left, step.values.line)
    return replace(step, values=values, enabled=step.enabled and truth is not False)


def _given(
    step: CommandStep, command: PlanCommand, defaults: Mapping[str, Node], mistakes: Mistakes
) -> dict[str, GivenValue]:
    """The values of a step by its parameters' names, defaults among them."""
    given: dict[str, GivenValue] = {}
    said = {spelled(key.text) for key, _ in step.values.entries}
    for name, node in defaults.items():
        if name not in said and not _CONFLICTS.get(name, frozenset()) & said:
            given |= _one(command, Scalar(name, node.line), node)
    for key, node in step.values.entries:
        if _secret(key, node, mistakes):
            continue
        if command.find(key.text) is None:
            mistakes.add(
                key.line, f"{command.name} has no option {key.text!r}{_hint(command, key)}"
            )
        elif isinstance(node, Scalar) and node.empty:
            if spelled(key.text) not in defaults:  # an empty value drops the default
                mistakes.add(key.line, f"{key.text!r} has no value; give one or leave it out")
        else:
            given |= _one(command, key, node)
    return given


def _check_required(
    command: PlanCommand, given: Mapping[str, GivenValue], line: int, mistakes: Mistakes
) -> None:
    """Called only if nothing else is wrong, as a misspelled option is also missing."""
    for parameter in command.parameters:
        if parameter.required and parameter.name not in given:
            mistakes.add(line, f"{command.name} needs {parameter.name!r}")


def _one(command: PlanCommand, key: Scalar, node: Node) -> dict[str, GivenValue]:
    parameter = command.find(key.text)
    return {parameter.name: GivenValue(parameter, node, key.line)} if parameter else {}


def _hint(command: PlanCommand, key: Scalar) -> str:
    word = key.text.lstrip("-")
    for parameter in command.parameters:
        if word in (parameter.short, parameter.name) or spelled(word) == parameter.name:
            return f"; write {parameter.name}"
    if word == "name":
        return "; write a step's name next to its command, not below it"
    near = did_you_mean(spelled(word), (one.name for one in command.parameters))
    return near or f"; see skipjack {command.name} --help"


def _secret(key: Scalar, node: Node, mistakes: Mistakes) -> bool:
    """Refuse a secret, as plans are shared; its value is not repeated."""
    if names_a_secret(key.text) and not all(map(names_a_place, _texts(node))):
        sentence = (
            f"{key.text!r} does not belong in a plan, which is shared and printed; "
            "use keys, an agent or a file that only you can read"
        )
    elif any(holds_a_secret(text) for text in _texts(node)):
        sentence = (
            f"{key.text!r} seems to contain a password or token; remove it from the plan, which "
            "is shared and printed"
        )
    else:
        return False
    mistakes.add(key.line, sentence)
    return True


def _texts(node: Node) -> list[str]:
    if isinstance(node, Scalar):
        return [node.text]
    if isinstance(node, Table):
        return [text for _, value in node.entries for text in _texts(value)]
    return [text for item in node.items for text in _texts(item)]


def _inputs(given: Mapping[str, GivenValue]) -> tuple[tuple[str, int], ...]:
    one = given.get(_INPUT)
    if one is None:
        return ()
    return tuple((text, one.line) for text in _texts(one.node))
