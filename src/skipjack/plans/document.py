"""YAML as a tree of texts with their lines: no types, no tags, no anchors, no key twice.

YAML would read ``6.20`` as 6.2, ``no`` as false and the later of two equal keys in silence. Here a
value is the text that was written, and what takes it decides what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    """The one document of a YAML file; whatever is wrong with it is said with its line.

    Keys that stand twice are told to `complain`, if there is one, and the first of them counts; all
    else that is wrong is raised.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"there is no plan {path}; skipjack plan init writes an example") from None
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path} has more than {LARGEST_BYTES // 1024} KiB: that is no plan")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    return parse_document(text, str(path), complain)


def parse_document(text: str, source: str, complain: Complain | None = None) -> Node:
    """As `read_document`, of a text; `source` is what complaints call it."""
    reader = _Reader(source, _events(text, source), complain)
    root = reader.document()
    if root is None:
        raise UsageError(f"{source} is empty; skipjack plan init writes an example")
    return root


def _events(text: str, source: str) -> Iterator[yaml.Event]:
    try:
        yield from yaml.parse(text, Loader=yaml.SafeLoader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(
            f"{source}:{line}: the character {chr(error.character)!r} is not allowed in YAML"
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}" if mark else source
        raise UsageError(f"{where}: {_sentence(error)}") from None


def _sentence(error: yaml.MarkedYAMLError) -> str:
    problem = error.problem or "not YAML"
    if "'\\t'" in problem:
        return "a tab where YAML wants spaces; indent with spaces"
    context = f" {error.context}" if error.context else ""
    since = error.context_mark
    began = f" that began in line {since.line + 1}" if context and since else ""
    return f"not YAML: {problem}{context}{began}"


class _Reader:
    """Makes a tree out of the parser's events, as large as the file: aliases are refused."""

    def __init__(
        self, source: str, events: Iterator[yaml.Event], complain: Complain | None
    ) -> None:
        self._source = source
        self._events = events
        self._complain = complain

    def document(self) -> Node | None:
        root: Node | None = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refusal(event, "a second document begins; a plan is one document")
            elif isinstance(event, yaml.NodeEvent):
                root = self._node(event, 1)
        return None if isinstance(root, Scalar) and root.empty else root

    def _node(self, event: yaml.Event, depth: int) -> Node:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise self._refusal(
                event,
                "anchors and aliases (& and *) are not read in plans; what holds for all "
                "steps is said once under defaults",
            )
        if event.tag is not None:
            raise self._refusal(
                event, f"tags such as {event.tag} are not read in plans; leave it out"
            )
        if depth > DEEPEST:
            raise self._refusal(event, f"nested more than {DEEPEST} deep; a plan never is")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, line, plain=event.style is None)
        if isinstance(event, yaml.SequenceStartEvent):
            return Listing(tuple(self._items(depth)), line)
        return Table(tuple(self._entries(depth)), line)

    def _items(self, depth: int) -> Iterator[Node]:
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                return
            yield self._node(event, depth + 1)

    def _entries(self, depth: int) -> Iterator[tuple[Scalar, Node]]:
        seen: dict[str, int] = {}
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                return
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar) or key.empty:
                raise self._refusal(event, "a key must be a word")
            # Dashes and underscores mean the same in keys, hence two spellings are one key twice.
            name = key.text.replace("_", "-")
            value = self._node(next(self._events), depth + 1)
            if name in seen:
                self._twice(event, f"{key.text!r} stands here twice, first in line {seen[name]}")
            else:
                seen[name] = key.line
                yield key, value

    def _twice(self, event: yaml.Event, sentence: str) -> None:
        if self._complain is None:
            raise self._refusal(event, f"{sentence}; keep one")
        self._complain(event.start_mark.line + 1, f"{sentence}; keep one")

    def _refusal(self, event: yaml.Event, sentence: str) -> UsageError:
        return UsageError(f"{self._source}:{event.start_mark.line + 1}: {sentence}")
