"""Which image a name stands for here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.images import commands
from skipjack.fleet.images.container_engine import ContainerEngine, complaint

_UNKNOWN = ("no such image", "image not known", "no such object", "failed to find image")


@dataclass(frozen=True, slots=True)
class Identity:
    """An image that is here."""

    name: str
    id: str
    """``sha256:...`` of all it holds: the same name may be another image tomorrow."""
    version: str = ""
    """Of the Skipjack in it, if the image was built by us."""

    @property
    def note(self) -> str:
        """How a label's notes name it."""
        return f"{self.name} {self.id}"


def identity(engine: ContainerEngine, image: str) -> Identity:
    """The image of this name; one that is not here is an error, nothing is pulled."""
    asked = engine.call(commands.inspect_image(image))
    if asked.returncode:
        why = complaint(asked.stderr)
        if any(words in why.lower() for words in _UNKNOWN):
            raise UsageError(
                f"there is no image {image} on this machine; skipjack image build -t {image} makes "
                f"it, skipjack image pull {image} --here gets it"
            )
        raise SkipjackError(f"{engine.name} does not say what image {image} is: {why}")
    try:
        found: Mapping[str, Any] = json.loads(asked.stdout)[0]
        labels = (found.get("Config") or {}).get("Labels") or {}
        digest = str(found["Id"]).removeprefix("sha256:")
        return Identity(image, f"sha256:{digest}", str(labels.get(commands.VERSION_LABEL, "")))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise SkipjackError(
            f"{engine.name} image inspect {image} answered something that is no image"
        ) from None
