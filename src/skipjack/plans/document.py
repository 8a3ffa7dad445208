"""YAML as a tree of texts with their lines: no types, no tags, no anchors, no key twice.

YAML would read ``6.20`` as 6.2, ``no`` as false and the later of two equal keys in silence. Here a
value is the text that was written, and what takes it decides what it means.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from skipjack.errors import StorageError, UsageError

LARGEST_BYTES = 256 * 1024
"""Plans are written by people; a parser that meets more than this is being attacked."""
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Scalar:
    """A text as it was written; `plain` if without quotes."""

    text: str
    line: int
    plain: bool = True

    @property
    def empty(self) -> bool:
        """Whether YAML means nothing at all by it."""
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
    """The one document of a YAML file; errors name its line.

    Keys that stand twice are told to `complain`, if there is one, and the first of them counts; all
    other errors are raised.
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
    """As `read_document`, of a text; `source` is the name that errors give it."""

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
    """Something that is YAML and has no place in a plan."""

    line: int
    sentence: str


class _PlanLoader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    """Composes nodes, and refuses what plans do not use before any of it is expanded."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: object) -> yaml.Node:
        event = self.peek_event()
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise _RefusedError(
                line,
                "anchors and aliases (& and *) are not read in plans; what holds for all "
                "steps is said once under defaults",
            )
        if event.tag is not None:
            raise _RefusedError(
                line, f"tags such as {event.tag} are not read in plans; leave it out"
            )
        if self._depth >= DEEPEST:
            raise _RefusedError(line, f"nested more than {DEEPEST} deep; a plan never is")
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
        # Dashes and underscores mean the same in keys, hence two spellings are one key twice.
        name = key.text.replace("_", "-")
        value = _node(value_node, twice)
        if name in entries:
            first = entries[name][0].line
            twice(key.line, f"{key.text!r} stands here twice, first in line {first}; keep one")
        else:
            entries[name] = (key, value)
    return Table(tuple(entries.values()), line)


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not YAML"
    if problem == "but found another document":
        return "a second document begins; a plan is one document"
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces; indent with spaces"
    context = f" {error.context}" if error.context else ""
    since = error.context_mark
    began = f" that began in line {since.line + 1}" if context and since else ""
    return f"not YAML: {problem}{context}{began}"
