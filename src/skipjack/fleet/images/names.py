"""Names of images, the image that a name refers to on this machine, and the image that a label
notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from skipjack.errors import MalformedError, SkipjackError, UsageError
from skipjack.fleet.images import commands
from skipjack.fleet.images.container_engine import ContainerEngine, complaint
from skipjack.reading import Field, read_json

if TYPE_CHECKING:
    from skipjack.fleet.store import Store


# Checks of names for a container engine, so that none can be taken for an option.

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"sha256:[0-9a-f]{64}"
_IMAGE = re.compile(
    rf"(?P<repository>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>{_TAG}))?(?:@{_DIGEST})?"
)
_ID = re.compile(_DIGEST)
_REGISTRY = re.compile(rf"{_HOST}(?:/{_PART})*")
_USER = re.compile(r"[A-Za-z0-9_.$@+][A-Za-z0-9_.$@+-]*")
_BRANCH = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_./+#@-]*")
_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+){0,2}(?:[-_][A-Za-z0-9_.-]+)?")
_BUILD_ARGUMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")
_REPOSITORY = re.compile(r"(?:(?:https?|ssh|git|file)://|[A-Za-z0-9_.][A-Za-z0-9_.-]*@)\S+|/\S+")
_SECRET = re.compile(r"\b[a-z+]+://[^/\s@]*:[^/\s@]*@|\bhttps?://[^/\s?#@]*@", re.IGNORECASE)
"""A password, or a token before the host of a web address."""
_LONGEST = 255


def check_image(name: str) -> str:
    """Check the name of an image: ``my_img``, ``rocm/miopen-private:my_img``, ``sha256:...``."""
    if len(name) > _LONGEST or not (_IMAGE.fullmatch(name) or _ID.fullmatch(name)):
        raise UsageError(
            f"{name!r} is not the name of an image; write it in lower case, as my_img, "
            "my_img:latest or team/repository:my_img"
        )
    return name


def check_new_image(name: str) -> str:
    """Check the name of a new image, which cannot have a digest."""
    check_image(name)
    if "@" in name or _ID.fullmatch(name):
        raise UsageError(
            f"a new image cannot have a digest as its name ({name}); write a name and a tag"
        )
    return name


def in_repository(image: str, repository: str) -> str:
    """The name of an image in a repository: ``my_img`` in ``team/r`` is ``team/r:my_img``."""
    check_new_image(image)
    found = _IMAGE.fullmatch(repository)
    if found is None or found["tag"] or "@" in repository:
        raise UsageError(
            f"{repository!r} is not a repository; write it without a tag, as rocm/miopen-private"
        )
    name, _, tag = image.rpartition("/")[2].partition(":")
    return check_new_image(f"{repository}:{name}{f'-{tag}' if tag else ''}")


def check_registry(name: str) -> str:
    """Check a registry to log in to; empty: the engine's default."""
    if name and not _REGISTRY.fullmatch(name):
        raise UsageError(f"{name!r} is not a registry; write a host, as registry.example.org:5000")
    return name


def check_user(name: str) -> str:
    """Check the user name for a registry."""
    if len(name) > _LONGEST or not _USER.fullmatch(name):
        raise UsageError(
            f"{name!r} is not a user name of a registry; write the name that you log in with"
        )
    return name


def check_branch(name: str) -> str:
    """Check a branch or tag of a git repository, or the full hash of a commit."""
    if (
        len(name) > _LONGEST
        or not _BRANCH.fullmatch(name)
        or any(part in name for part in ("..", "//", "@{"))
        or name.endswith(("/", ".", ".lock"))
    ):
        raise UsageError(f"{name!r} is not a branch; write one such as develop or release/6.2")
    return name


def check_rocm_version(text: str) -> str:
    """Check a version of ROCm, as in the tags of its images."""
    if len(text) > _LONGEST or not _VERSION.fullmatch(text):
        raise UsageError(f"{text!r} is not a version of ROCm; write it as 6.2 or 6.2.4")
    return text


def check_git_repository(url: str) -> str:
    """Check the address of a repository; a password in it would stay in the image's history."""
    if len(url) > _LONGEST or not _REPOSITORY.fullmatch(url):
        raise UsageError("the repository is not an address for git; write it as https://...")
    if _SECRET.search(url):
        raise UsageError(
            "the repository's address contains a password or token, which every copy of the image "
            "would carry; leave it out: --ssh and --secret give access only to the build"
        )
    return url


def check_build_argument(text: str) -> str:
    """Check ``NAME=value`` for the Dockerfile."""
    name = text.partition("=")[0]
    if not _BUILD_ARGUMENT.fullmatch(text):
        raise UsageError(f"{name!r} is not a build argument; write NAME=value")
    if _SECRET.search(text):
        raise UsageError(
            f"the build argument {name} contains an address with a password or token, which every "
            "copy of the image would carry; leave it out: --ssh and --secret give access only to "
            "the build"
        )
    return text


# The image that a name refers to on this machine.

_LONGEST_ID = 200
_UNKNOWN = ("no such image", "image not known", "no such object", "failed to find image")


@dataclass(frozen=True, slots=True)
class ImageIdentity:
    """An image of this machine."""

    name: str
    id: str
    """``sha256:...`` of its content: a name may refer to another image later."""
    version: str = ""
    """Version of Skipjack in it, if Skipjack built the image."""

    @property
    def note(self) -> str:
        """The text for a label's notes."""
        return f"{self.name} {self.id}"


def identity(engine: ContainerEngine, image: str) -> ImageIdentity:
    """The image with this name; a missing one is an error and is not pulled."""
    asked = engine.call(commands.inspect_image(image))
    if asked.returncode:
        why = complaint(asked.stderr)
        if any(words in why.lower() for words in _UNKNOWN):
            raise UsageError(
                f"this machine has no image {image}; build it with skipjack image build -t {image} "
                f"or pull it with skipjack image pull {image} --here"
            )
        raise SkipjackError(f"{engine.name} cannot inspect the image {image}: {why}")
    try:
        found = read_json(asked.stdout)[0]
        digest = found["Id"].text(_LONGEST_ID).removeprefix("sha256:")
        return ImageIdentity(image, f"sha256:{digest}", _skipjack_version(found))
    except MalformedError as error:
        raise SkipjackError(
            f"{engine.name} image inspect {image} returned an unexpected answer ({error})"
        ) from None


def _skipjack_version(found: Field) -> str:
    """The version of Skipjack that built the image; empty for other images."""
    config = found.get("Config")
    labels = None if config is None or config.null else config.get("Labels")
    version = None if labels is None or labels.null else labels.get(commands.VERSION_LABEL)
    return version.text() if version else ""


# The image in a label's notes: results of different images are not comparable.

_LONGEST_NOTE = 255


def note_image(store: Store, label: str, image: ImageIdentity) -> str:
    """Note the image that a label's jobs run in; returns a warning if it was another before."""
    known = store.labels.get(label)
    if not known.image:
        note = image.note if len(image.note) <= _LONGEST_NOTE else image.name
        store.jobs.add(replace(known, image=note), ())
        return ""
    name, _, digest = known.image.partition(" ")
    if name == image.name and digest in ("", image.id):
        return ""
    other = "another image of that name" if name == image.name else known.image
    return (
        f"label {known.name} began with {other}, and continues with {image.name} "
        f"({image.id.removeprefix('sha256:')[:12]}): its times may not be comparable; use a new "
        "label to keep them apart"
    )
