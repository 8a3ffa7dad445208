"""Which image a name stands for here."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.errors import MalformedError, SkipjackError, UsageError
from skipjack.fleet.images import commands
from skipjack.fleet.images.container_engine import ContainerEngine, complaint
from skipjack.reading import Field, read_json

_LONGEST_ID = 200
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
        found = read_json(asked.stdout)[0]
        digest = found["Id"].text(_LONGEST_ID).removeprefix("sha256:")
        return Identity(image, f"sha256:{digest}", _version(found))
    except MalformedError as error:
        raise SkipjackError(
            f"{engine.name} image inspect {image} answered something that is no image ({error})"
        ) from None


def _version(found: Field) -> str:
    """Of the Skipjack that built it; an image of others has no labels, or other ones."""
    config = found.get("Config")
    labels = None if config is None or config.null else config.get("Labels")
    version = None if labels is None or labels.null else labels.get(commands.VERSION_LABEL)
    return version.text() if version else ""
