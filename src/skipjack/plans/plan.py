"""A plan as written: YAML with its lines; a name, defaults, and steps."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from skipjack.errors import MalformedError, NewerFormatError, StorageError, UsageError
from skipjack.plans.commands import did_you_mean
from skipjack.reading import whole_number

# YAML as a tree of texts with their lines: no types, no tags, no anchors, no key twice.
#
# YAML would read ``6.20`` as 6.2 and ``no`` as false, and would silently use the later of two equal
# keys. Here, a value is the text as written, and whatever takes it decides what it means.

LARGEST_BYTES = 256 * 1024
"""Plans are written by hand; anything larger is likely an attack on the parser."""
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as written; `plain` if it has no quotes."""

    text: str
    line: int
    plain: bool = True

    @property
    def empty(self) -> bool:
        """Whether YAML reads it as null."""
        return self.plain and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Listing:
    """Several nodes in order."""

    items: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Table:
    """Nodes by distinct keys, in the order of the file."""

    entries: tuple[tuple[Scalar, Node], ...]
    line: int


Node = Scalar | Listing | Table


Complain = Callable[[int, str], None]
"""Takes a line and a sentence about it."""


def read_document(path: Path, complain: Complain | None = None) -> Node:
    """The document of a YAML file; errors name the line.

    Duplicate keys are reported to `complain`, if it is given, and the first one is used; all other
    errors are raised.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no plan {path}; skipjack plan init writes an example") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST_BYTES:
        raise UsageError(
            f"{path} has more than {LARGEST_BYTES // 1024} KiB, which is too large for a plan"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    return parse_document(text, str(path), complain)


def parse_document(text: str, source: str, complain: Complain | None = None) -> Node:
    """Like `read_document`, but from a text; `source` is its name in errors."""

    def twice(line: int, sentence: str) -> None:
        if complain is None:
            raise _RefusedError(line, sentence)
        complain(line, sentence)

    try:
        composed = yaml.compose(text, Loader=_PlanLoader)
        root = None if composed is None else _node(composed, twice)
    except _RefusedError as error:
        raise UsageError(f"{source}:{error.line}: {error.sentence}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(
            f"{source}:{line}: the character {chr(error.character)!r} is not allowed in YAML"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise UsageError(f"{where}: {_sentence(error)}") from None
    if root is None or (isinstance(root, Scalar) and root.empty):
        raise UsageError(f"{source} is empty; skipjack plan init writes an example")
    return root


@dataclass
class _RefusedError(Exception):
    """A feature of YAML that plans do not support."""

    line: int
    sentence: str


class _PlanLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Composes nodes; refuses unsupported features of YAML before they are expanded."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _RefusedError(
                line,
                "anchors and aliases (& and *) are not supported in plans; put options of all "
                "steps under defaults",
            )
        if event.tag is not None:
            raise _RefusedError(
                line, f"tags such as {event.tag} are not supported in plans; leave it out"
            )
        if self._depth >= DEEPEST:
            raise _RefusedError(
                line, f"nested more than {DEEPEST} levels deep, which no plan needs"
            )
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _node(node: yaml.Node, twice: Complain) -> Node:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.ScalarNode):
        return Scalar(node.value, line, plain=node.style is None)
    if isinstance(node, yaml.SequenceNode):
        return Listing(tuple(_node(item, twice) for item in node.value), line)
    entries: dict[str, tuple[Scalar, Node]] = {}
    for key_node, value_node in node.value:
        key = _node(key_node, twice)
        if not isinstance(key, Scalar) or key.empty:
            raise _RefusedError(key.line, "a key must be a word")
        # Dashes and underscores mean the same in keys, so two spellings are the same key.
        name = key.text.replace("_", "-")
        value = _node(value_node, twice)
        if name in entries:
            first = entries[name][0].line
            twice(key.line, f"duplicate key {key.text!r}, first in line {first}; keep one of them")
        else:
            entries[name] = (key, value)
    return Table(tuple(entries.values()), line)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not YAML"
    if problem == "but found another document":
        return "a second document begins; a plan has only one"
    if "'\\t'" in problem:
        return "a tab where YAML requires spaces; indent with spaces"
    context = f" {error.context}" if error.context else ""
    since = error.context_mark
    began = f" that begins in line {since.line + 1}" if context and since else ""
    return f"not YAML: {problem}{context}{began}"


# The form of a plan: a name, defaults, and steps, each a command with its values.

FORMAT = 1
_KEYS = ("format", "name", "defaults", "steps")
_STEP_KEYS = ("name", "enabled")
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
_NAME = re.compile(r"[A-Za-z_][\w .-]*")


@dataclass(frozen=True, slots=True)
class CommandStep:
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
    steps: tuple[CommandStep, ...]


@dataclass(slots=True)
class Mistakes:
    """All mistakes of a plan, collected to be reported at once."""

    path: Path
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, sentence: str) -> None:
        """Add a mistake."""
        self.found.append((line, sentence))

    @property
    def lines(self) -> list[str]:
        """All mistakes as ``FILE:LINE: sentence``, in the order of the file."""
        return [f"{self.path}:{line}: {sentence}" for line, sentence in sorted(self.found)]

    def refuse(self) -> None:
        """Raise `UsageError` if there are any."""
        if not self.found:
            return
        others = len(self.found) - 1
        more = f" ({others} more: skipjack plan check {self.path} lists them)" if others else ""
        raise UsageError(f"{self.lines[0]}{more}")


def read_plan(path: Path, mistakes: Mistakes) -> Plan:
    """Read a plan; raises if the file is not YAML or not a plan, and collects other mistakes."""
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
        raise UsageError(
            f"{path}:{root.line}: this plan has no steps; add a list of them under steps"
        )
    return Plan(
        path=path,
        name=_name(entries, mistakes) or path.stem,
        defaults=_defaults(entries, mistakes),
        steps=_steps(steps[1], mistakes),
    )


def truth_of(node: Node) -> bool | None:
    """The value of a boolean in any of YAML's spellings; None if it is not a boolean."""
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
            f"{path}:{key.line}: this plan has format {version}, of a newer Skipjack; this version "
            f"reads format {FORMAT}"
        )
    if version != FORMAT:
        raise UsageError(f"{path}:{key.line}: unknown format; write {FORMAT}, or leave it out")


def _name(entries: dict[str, tuple[Scalar, Node]], mistakes: Mistakes) -> str:
    if "name" not in entries:
        return ""
    return _checked_name(*entries["name"], mistakes)


def _checked_name(key: Scalar, node: Node, mistakes: Mistakes) -> str:
    if isinstance(node, Scalar) and _NAME.fullmatch(node.text):
        return node.text
    mistakes.add(key.line, "a name must be a text that begins with a letter")
    return ""


def _defaults(entries: dict[str, tuple[Scalar, Node]], mistakes: Mistakes) -> Table:
    key, node = entries.get("defaults", (None, None))
    if isinstance(node, Table):
        return node
    if key is not None and not (isinstance(node, Scalar) and node.empty):
        mistakes.add(key.line, "defaults must be a table of options, such as label: nightly")
    return Table((), 0)


def _steps(node: Node, mistakes: Mistakes) -> tuple[CommandStep, ...]:
    if not isinstance(node, Listing) or not node.items:
        mistakes.add(node.line, "steps must be a list, such as - load: {tag: small, label: L}")
        return ()
    read = (_step(item, mistakes) for item in node.items)
    steps = tuple(step for step in read if step is not None)
    seen: dict[str, int] = {}
    for step in steps:
        if step.name and step.name in seen:
            first = seen[step.name]
            mistakes.add(step.line, f"the step of line {first} has the name {step.name!r}, too")
        seen.setdefault(step.name, step.line)
    return steps


def _step(node: Node, mistakes: Mistakes) -> CommandStep | None:
    if isinstance(node, Scalar) and not node.empty:
        return CommandStep(node.text, Table((), node.line), node.line)
    if not isinstance(node, Table):
        mistakes.add(
            node.line, "a step must be a command with its options, such as load: {tag: small}"
        )
        return None
    commands = [(key, value) for key, value in node.entries if key.text not in _STEP_KEYS]
    if len(commands) != 1:
        listed = ", ".join(key.text for key, _ in commands) or "none"
        mistakes.add(
            node.line,
            f"a step must have one command, but this one has {listed}; begin each step with a "
            "dash, and indent its options",
        )
        return None
    key, value = commands[0]
    values = _values(key, value, mistakes)
    beside = [entry for entry in node.entries if entry[0].text in _STEP_KEYS]
    return _named(CommandStep(" ".join(key.text.split()), values, key.line), beside, mistakes)


def _values(key: Scalar, value: Node, mistakes: Mistakes) -> Table:
    if isinstance(value, Table):
        return value
    if not (isinstance(value, Scalar) and value.empty):
        mistakes.add(
            value.line, f"options of {key.text} must be a table, such as {key.text}: {{label: L}}"
        )
    return Table((), key.line)


def _named(step: CommandStep, beside: list[tuple[Scalar, Node]], mistakes: Mistakes) -> CommandStep:
    name, enabled = step.name, step.enabled
    for key, node in beside:
        if key.text == "name":
            name = _checked_name(key, node, mistakes)
        else:
            truth = truth_of(node)
            if truth is None:
                mistakes.add(key.line, "enabled must be true or false")
            enabled = truth is not False
    return CommandStep(step.command, step.values, step.line, name, enabled)
