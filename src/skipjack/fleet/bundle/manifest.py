"""What a bundle says about itself, and the texts that its seals are made of."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from skipjack.errors import UsageError
from skipjack.reading import read_json
from skipjack.storage import timestamp, utc_now

FORMAT = 1
_SLICE = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")


class Kind(StrEnum):
    """What a bundle is for."""

    JOBS = "jobs"
    RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Slice:
    """One of several parts that together are all jobs, none of them twice."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Slice:
        """``1/4`` is the first of four."""
        match = _SLICE.fullmatch(text)
        if not match or int(match[1]) > int(match[2]):
            raise UsageError(f"slice {text!r} is not of the form k/n with k from 1 to n, as 1/4")
        return cls(int(match[1]), int(match[2]))

    def __contains__(self, job: int) -> bool:
        return job % self.of == self.number - 1

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What never changes about a bundle."""

    kind: Kind
    label: str
    store: str
    """Tells the store and the label that the jobs came from."""
    key: str
    """The fingerprint of the key that it is sealed with."""
    slice: str = "1/1"
    source: str = ""
    """The id of the bundle of jobs that results belong to."""
    id: str = field(default_factory=lambda: secrets.token_hex(16))
    created: str = field(default_factory=lambda: timestamp(utc_now()))
    format: int = FORMAT

    def text(self) -> str:
        """As JSON; `of` reads it."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, text: str) -> Manifest:
        """What `text` made; `MalformedError` if it was not that."""
        return read_json(text, "manifest").of(cls)


def entry_text(bundle: str, position: int, kind: str, name: str, body: bytes) -> str:
    """What an entry's seal is made of: it holds at this place of this bundle only."""
    return f"bundle {bundle} {position} {kind} {name} {hashlib.sha256(body).hexdigest()}"


def manifest_text(text: str, count: int, head: str) -> str:
    """What the manifest's seal is made of: everything in the bundle, in order."""
    return f"manifest {hashlib.sha256(text.encode()).hexdigest()} {count} {head}"


def chained(head: str, entry_seal: str) -> str:
    """The chain of seals with one more."""
    return hashlib.sha256(f"{head} {entry_seal}".encode()).hexdigest()
