"""A label's notes say which image its jobs ran in: results of two images are not alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from skipjack.fleet.images.identity import Identity
from skipjack.fleet.records import Label, Plan

_LONGEST = 255


class Notebook(Protocol):
    """What noting needs of a `Store`."""

    def label(self, name: str) -> Label:
        """The label of this name."""
        ...

    def add_jobs(self, label: Label, plans: Iterable[Plan]) -> object:
        """Add jobs, and texts to a label's notes where there were none."""
        ...


def note_image(store: Notebook, label: str, image: Identity) -> str:
    """Write down which image a label's jobs run in; a sentence if others ran in another one."""
    known = store.label(label)
    if not known.image:
        note = image.note if len(image.note) <= _LONGEST else image.name
        store.add_jobs(replace(known, image=note), ())
        return ""
    name, _, digest = known.image.partition(" ")
    if name == image.name and digest in ("", image.id):
        return ""
    other = "another image of that name" if name == image.name else known.image
    return (
        f"label {known.name} was begun with {other}, and goes on with {image.name} "
        f"({image.id.removeprefix('sha256:')[:12]}): its times may not be comparable; a new label "
        "keeps them apart"
    )
