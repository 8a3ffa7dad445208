"""Every step of a plan against the command it names, before the first one starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from skipjack.core.digest import digest_of
from skipjack.plans.commands import Command, CommandBook, did_you_mean, spelled
from skipjack.plans.document import Node, Scalar, Table
from skipjack.plans.plan import Mistakes, Plan, Step, truth_of
from skipjack.plans.secrecy import holds_a_secret, names_a_place, names_a_secret
from skipjack.plans.wording import Given, well_formed, words_of

_RIVALS: Mapping[str, frozenset[str]] = {"device": frozenset({"arch", "units", "devices"})}
"""A default that would contradict what a step says in another way."""
_BY_HAND: Mapping[str, str] = {
    "image login": "reads a password from standard input, which a step does not have; log in by "
    "hand before the plan is run"
}
"""Commands that are no steps."""
_SHOWN = 200
_INPUT = "file"
"""What commands call the file that they read."""


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """A step that its command accepts."""

    number: int
    command: str
    argv: tuple[str, ...]
    """The words after ``skipjack``."""
    line: int
    name: str = ""
    enabled: bool = True
    inputs: tuple[tuple[str, int], ...] = ()
    """Files that it reads, with the lines that name them."""

    @property
    def digest(self) -> str:
        """Changes when what is done changes, not when it is named or written another way."""
        return digest_of(self.argv)

    @property
    def title(self) -> str:
        """How people call it."""
        return f"{self.name} ({self.command})" if self.name else self.command


def validate(plan: Plan, book: CommandBook, mistakes: Mistakes) -> tuple[PlannedStep, ...]:
    """The steps with their command lines; mistakes are collected, and such steps left out."""
    defaults = _checked_defaults(plan, book, mistakes)
    planned = []
    for number, step in enumerate(plan.steps, start=1):
        command = _command(step, book, mistakes)
        if command is not None:
            planned.append(_planned(number, step, command, defaults, mistakes))
    return tuple(planned)


def check_inputs(steps: tuple[PlannedStep, ...], directory: Path, mistakes: Mistakes) -> None:
    """Files that steps read are there, or an earlier step names them and may make them."""
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
    except OSError:  # no file can have such a name, or none in a directory of others is seen
        return False


def _command(step: Step, book: CommandBook, mistakes: Mistakes) -> Command | None:
    if step.command in _BY_HAND:
        mistakes.add(step.line, f"{step.command} {_BY_HAND[step.command]}")
        return None
    command = book.get(step.command)
    if command is not None:
        return command
    first = step.command.split(" ")[0]
    group = [name for name in book if name.startswith(f"{step.command} ")]
    if group:
        hint = f"; say which: {', '.join(group)}"
    elif first == "plan":
        hint = "; a plan has no plans in it"
    elif step.command != first and first in book:
        hint = f"; options stand below the command, as - {first}: {{label: L}}"
    else:
        hint = did_you_mean(step.command, book) or "; skipjack --help lists them"
    mistakes.add(step.line, f"unknown command {step.command!r}{hint}")
    return None


def _checked_defaults(plan: Plan, book: CommandBook, mistakes: Mistakes) -> dict[str, Node]:
    """Defaults by key; each must be of use to some step."""
    commands = [book[step.command] for step in plan.steps if step.command in book]
    defaults = {}
    for key, node in plan.defaults.entries:
        if _secret(key, node, mistakes):
            continue
        if not any(command.find(key.text) for command in commands):
            known = {one.name for command in commands for one in command.parameters}
            hint = did_you_mean(spelled(key.text), known)
            mistakes.add(key.line, f"no step takes the default {key.text!r}{hint}")
        elif isinstance(node, Scalar) and node.empty:
            mistakes.add(key.line, f"the default {key.text!r} has no value")
        else:
            defaults[spelled(key.text)] = node
    return defaults


def _planned(
    number: int, step: Step, command: Command, defaults: Mapping[str, Node], mistakes: Mistakes
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
    command: Command, given: Mapping[str, Given], line: int, mistakes: Mistakes, *, clean: bool
) -> None:
    """What the command's own parser says, which names one parameter at a time.

    It is asked again without what was named. Once something is wrong, only what it says about a
    given value counts: a step without its wrong values may lack what it needs.
    """
    left = {name: one for name, one in given.items() if well_formed(one, mistakes.path)}
    while complaint := command.parse(words_of(command, left, Mistakes(mistakes.path))):
        named = left.pop(complaint.parameter, None)
        if named is not None or clean:
            mistakes.add(named.line if named else line, f"{command.name}: {complaint.sentence}")
        clean = False
        if named is None or not named.parameter.word:  # without one, arguments mean another thing
            return


def _with_switches(step: Step, command: Command, mistakes: Mistakes) -> Step:
    """`enabled` may stand among the options as well, where the command has none of that name."""
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
    step: Step, command: Command, defaults: Mapping[str, Node], mistakes: Mistakes
) -> dict[str, Given]:
    """The values of a step by its parameters' names, defaults among them."""
    given: dict[str, Given] = {}
    said = {spelled(key.text) for key, _ in step.values.entries}
    for name, node in defaults.items():
        if name not in said and not _RIVALS.get(name, frozenset()) & said:
            given |= _one(command, Scalar(name, node.line), node)
    for key, node in step.values.entries:
        if _secret(key, node, mistakes):
            continue
        if command.find(key.text) is None:
            mistakes.add(
                key.line, f"{command.name} has no option {key.text!r}{_hint(command, key)}"
            )
        elif isinstance(node, Scalar) and node.empty:
            if spelled(key.text) not in defaults:  # else: this step goes without the default
                mistakes.add(key.line, f"{key.text!r} has no value; give one or leave it out")
        else:
            given |= _one(command, key, node)
    return given


def _check_required(
    command: Command, given: Mapping[str, Given], line: int, mistakes: Mistakes
) -> None:
    """Only where nothing else is wrong: a misspelt option is missing as well."""
    for parameter in command.parameters:
        if parameter.required and parameter.name not in given:
            mistakes.add(line, f"{command.name} needs {parameter.name!r}")


def _one(command: Command, key: Scalar, node: Node) -> dict[str, Given]:
    parameter = command.find(key.text)
    return {parameter.name: Given(parameter, node, key.line)} if parameter else {}


def _hint(command: Command, key: Scalar) -> str:
    word = key.text.lstrip("-")
    for parameter in command.parameters:
        if word in (parameter.short, parameter.name) or spelled(word) == parameter.name:
            return f"; write {parameter.name}"
    if word == "name":
        return "; a step's name stands beside its command, not below it"
    near = did_you_mean(spelled(word), (one.name for one in command.parameters))
    return near or f"; skipjack {command.name} --help lists them"


def _secret(key: Scalar, node: Node, mistakes: Mistakes) -> bool:
    """Refuses what should not stand in a file that is shared; the value is not repeated."""
    if names_a_secret(key.text) and not all(map(names_a_place, _texts(node))):
        sentence = (
            f"{key.text!r} does not belong into a plan, which is shared and printed; "
            "use keys, an agent or a file that only you can read"
        )
    elif any(holds_a_secret(text) for text in _texts(node)):
        sentence = (
            f"a password or token seems to stand in {key.text!r}; take it out of the plan, which "
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


def _inputs(given: Mapping[str, Given]) -> tuple[tuple[str, int], ...]:
    one = given.get(_INPUT)
    if one is None:
        return ()
    return tuple((text, one.line) for text in _texts(one.node))
