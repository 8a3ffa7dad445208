"""What is remembered of a working directory: which of its files builds and runs write."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from skipjack.errors import MalformedError
from skipjack.reading import read_json
from skipjack.storage import atomic_write

FORMAT = 1
_MOST_DIGESTS = 100
Tally = tuple[int, int]
"""So many times out of so many since the first."""


@dataclass(slots=True)
class WatchMemory:
    """What is known of a working directory from one sitting to the next."""

    written: set[str] = field(default_factory=set)
    """Files that builds or runs write; with a slash at the end, all below a directory."""
    changed: dict[str, Tally] = field(default_factory=dict)
    """Files that changed while runs were made and may have been edited."""
    built: dict[str, Tally] = field(default_factory=dict)
    """The same for code that changed during builds."""
    digests: dict[str, str] = field(default_factory=dict)
    """Digests of sittings by what they are without the files that became known meanwhile."""
    newest_ns: int = 0
    """Of a sitting that has not ended: its files at the start are older than this."""
    state: str = ""
    """The sources then."""

    @classmethod
    def read(cls, path: Path) -> WatchMemory:
        """What was written; nothing if that is not to be read."""
        try:
            content = read_json(path.read_bytes(), surrogates=True).without("format", FORMAT)
            written = {name.text() for name in content["written"].elements()}
            return content.of(cls, written=written)
        except (OSError, MalformedError):
            return cls()

    def write(self, path: Path) -> None:
        """In one step."""
        latest = dict(list(self.digests.items())[-_MOST_DIGESTS:])
        content = {"format": FORMAT, **asdict(self), "digests": latest}
        content["written"] = sorted(self.written)
        atomic_write(path, json.dumps(content).encode(), durable=False)


def usual(tallies: dict[str, Tally], names: set[str]) -> set[str]:
    """Count what happened to these; those to which it happens more often than not, not just once.

    People edit a file now and then; what a command writes is another one nearly each time.
    """
    found = set()
    for name in tallies.keys() | names:
        often, of = tallies.get(name, (0, 0))
        tallies[name] = (often + (name in names), of + 1)
        if name in names and often and 2 * often >= of:
            found.add(name)
    return found
