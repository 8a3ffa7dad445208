"""The shape of a plan: a name, defaults, and steps, each a command with its values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.errors import MalformedError, NewerFormatError, UsageError
from skipjack.plans.commands import did_you_mean
from skipjack.plans.document import Listing, Node, Scalar, Table, read_document
from skipjack.reading import whole_number

FORMAT = 1
_KEYS = ("format", "name", "defaults", "steps")
_BESIDE = ("name", "enabled")
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
_NAME = re.compile(r"[A-Za-z_][\w .-]*")


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a plan, as written."""

    command: str
    values: Table
    line: int
    name: str = ""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan, as written."""

    path: Path
    name: str
    defaults: Table
    steps: tuple[Step, ...]


@dataclass(slots=True)
class Mistakes:
    """Everything that is wrong with a plan, collected so that it is said at once."""

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, sentence: str) -> None:
        """One more."""
        self.found.append((line, sentence))

    @property
    def lines(self) -> list[str]:
        """All of them as ``FILE:LINE: sentence``, in the order of the file."""
        return [f"{self.path}:{line}: {sentence}" for line, sentence in sorted(self.found)]

    def refuse(self) -> None:
        """Raise `UsageError` if there is any."""
        if not self.found:
            return
        others = len(self.found) - 1
        more = f" ({others} more: skipjack plan check {self.path} lists them)" if others else ""
        raise UsageError(f"{self.lines[0]}{more}")


def read_plan(path: Path, mistakes: Mistakes) -> Plan:
    """A plan out of a file; what is no YAML or no plan at all is raised, the rest collected."""
    root = read_document(path, mistakes.add)
    if not isinstance(root, Table):
        raise UsageError(f"{path}:{root.line}: a plan is a table with name, defaults and steps")
    entries = {key.text: (key, node) for key, node in root.entries}
    for name, (key, _) in entries.items():
        if name not in _KEYS:
            hint = did_you_mean(name, _KEYS)
            mistakes.add(key.line, f"unknown key {name!r}; a plan has {', '.join(_KEYS)}{hint}")
    _check_format(path, entries)
    steps = entries.get("steps")
    if steps is None:
        raise UsageError(f"{path}:{root.line}: a plan has steps, and this one has none")
    return Plan(
        path=path,
        name=_name(entries, mistakes) or path.stem,
        defaults=_defaults(entries, mistakes),
        steps=_steps(steps[1], mistakes),
    )


def truth_of(node: Node) -> bool | None:
    """What a boolean says, in any of YAML's spellings; None if it is none."""
    return _BOOLEANS.get(node.text.lower()) if isinstance(node, Scalar) else None


def _check_format(path: Path, entries: dict[str, tuple[Scalar, Node]]) -> None:
    if "format" not in entries:
        return
    key, node = entries["format"]
    text = node.text if isinstance(node, Scalar) else ""
    try:
        version = whole_number(text)
    except MalformedError:
        version = 0
    if version > FORMAT:
        raise NewerFormatError(
            f"{path}:{key.line}: this plan has format {version}, written for a newer Skipjack; "
            f"this one reads format {FORMAT}"
        )
    if version != FORMAT:
        raise UsageError(f"{path}:{key.line}: format is {FORMAT}, or left out")


def _name(entries: dict[str, tuple[Scalar, Node]], mistakes: Mistakes) -> str:
    if "name" not in entries:
        return ""
    return _checked_name(*entries["name"], mistakes)


def _checked_name(key: Scalar, node: Node, mistakes: Mistakes) -> str:
    if isinstance(node, Scalar) and _NAME.fullmatch(node.text):
        return node.text
    mistakes.add(key.line, "a name is a text that begins with a letter")
    return ""


def _defaults(entries: dict[str, tuple[Scalar, Node]], mistakes: Mistakes) -> Table:
    key, node = entries.get("defaults", (None, None))
    if isinstance(node, Table):
        return node
    if key is not None and not (isinstance(node, Scalar) and node.empty):
        mistakes.add(key.line, "defaults are a table of options, as label: nightly")
    return Table((), 0)


def _steps(node: Node, mistakes: Mistakes) -> tuple[Step, ...]:
    if not isinstance(node, Listing) or not node.items:
        mistakes.add(node.line, "steps are a list, as - load: {tag: small, label: L}")
        return ()
    read = (_step(item, mistakes) for item in node.items)
    steps = tuple(step for step in read if step is not None)
    seen: dict[str, int] = {}
    for step in steps:
        if step.name and step.name in seen:
            first = seen[step.name]
            mistakes.add(step.line, f"the step of line {first} is called {step.name!r}, too")
        seen.setdefault(step.name, step.line)
    return steps


def _step(node: Node, mistakes: Mistakes) -> Step | None:
    if isinstance(node, Scalar) and not node.empty:
        return Step(node.text, Table((), node.line), node.line)
    if not isinstance(node, Table):
        mistakes.add(node.line, "a step is a command with its options, as load: {tag: small}")
        return None
    commands = [(key, value) for key, value in node.entries if key.text not in _BESIDE]
    if len(commands) != 1:
        listed = ", ".join(key.text for key, _ in commands) or "none"
        mistakes.add(
            node.line,
            f"a step has one command and this one {listed}; begin each step with a dash, "
            "and indent its options",
        )
        return None
    key, value = commands[0]
    values = _values(key, value, mistakes)
    beside = [entry for entry in node.entries if entry[0].text in _BESIDE]
    return _named(Step(" ".join(key.text.split()), values, key.line), beside, mistakes)


def _values(key: Scalar, value: Node, mistakes: Mistakes) -> Table:
    if isinstance(value, Table):
        return value
    if not (isinstance(value, Scalar) and value.empty):
        mistakes.add(value.line, f"options of {key.text} are a table, as {key.text}: {{label: L}}")
    return Table((), key.line)


def _named(step: Step, beside: list[tuple[Scalar, Node]], mistakes: Mistakes) -> Step:
    name, enabled = step.name, step.enabled
    for key, node in beside:
        if key.text == "name":
            name = _checked_name(key, node, mistakes)
        else:
            truth = truth_of(node)
            if truth is None:
                mistakes.add(key.line, "enabled is true or false")
            enabled = truth is not False
    return Step(step.command, step.values, step.line, name, enabled)
