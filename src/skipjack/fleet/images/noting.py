"""A label's notes say which image its jobs ran in: results of two images are not alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from skipjack.fleet.images.identity import Identity

if TYPE_CHECKING:
    from skipjack.fleet.store import Store

_LONGEST = 255


def note_image(store: Store, label: str, image: Identity) -> str:
    """Write down which image a label's jobs run in; a sentence if others ran in another one."""
    known = store.labels.get(label)
    if not known.image:
        note = image.note if len(image.note) <= _LONGEST else image.name
        store.jobs.add(replace(known, image=note), ())
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
