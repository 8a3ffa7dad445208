"""Names that are given to a container engine: nothing among them can be taken for an option."""

from __future__ import annotations

import re

from skipjack.errors import UsageError

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
"""A password; before the host of a web's address stands a token as often as a user."""
_LONGEST = 255


def check_image(name: str) -> str:
    """The name of an image, as ``my_img``, ``rocm/miopen-private:my_img`` or ``sha256:...``."""
    if len(name) > _LONGEST or not (_IMAGE.fullmatch(name) or _ID.fullmatch(name)):
        raise UsageError(
            f"{name!r} is no name of an image; write it in lower case as my_img, my_img:latest or "
            "team/repository:my_img"
        )
    return name


def check_new_image(name: str) -> str:
    """A name that an image can be given: one without a digest."""
    check_image(name)
    if "@" in name or _ID.fullmatch(name):
        raise UsageError(f"an image cannot be named by a digest, as {name}; write a name and a tag")
    return name


def in_repository(image: str, repository: str) -> str:
    """What an image is called in a repository: ``my_img`` in ``team/r`` is ``team/r:my_img``."""
    check_new_image(image)
    found = _IMAGE.fullmatch(repository)
    if found is None or found["tag"] or "@" in repository:
        raise UsageError(
            f"{repository!r} is no repository; write it without a tag, as rocm/miopen-private"
        )
    name, _, tag = image.rpartition("/")[2].partition(":")
    return check_new_image(f"{repository}:{name}{f'-{tag}' if tag else ''}")


def check_registry(name: str) -> str:
    """A registry to log in to; empty is the engine's own choice."""
    if name and not _REGISTRY.fullmatch(name):
        raise UsageError(f"{name!r} is no registry; write a host, as registry.example.org:5000")
    return name


def check_user(name: str) -> str:
    """Who logs in to a registry."""
    if len(name) > _LONGEST or not _USER.fullmatch(name):
        raise UsageError(f"{name!r} is no user name of a registry")
    return name


def check_branch(name: str) -> str:
    """A branch or tag of a git repository, or a commit by its whole number."""
    if (
        len(name) > _LONGEST
        or not _BRANCH.fullmatch(name)
        or any(part in name for part in ("..", "//", "@{"))
        or name.endswith(("/", ".", ".lock"))
    ):
        raise UsageError(f"{name!r} is no branch; write one, as develop or release/6.2")
    return name


def check_rocm_version(text: str) -> str:
    """A version of ROCm, as in the tags of its images."""
    if len(text) > _LONGEST or not _VERSION.fullmatch(text):
        raise UsageError(f"{text!r} is no version of ROCm; write it as 6.2 or 6.2.4")
    return text


def check_git_repository(url: str) -> str:
    """Where sources come from; a password in it would be kept in the image's history."""
    if len(url) > _LONGEST or not _REPOSITORY.fullmatch(url):
        raise UsageError("the repository is no address that git takes; write it as https://...")
    if _SECRET.search(url):
        raise UsageError(
            "the repository's address has a password or token in it, which every copy of the image "
            "would carry; leave it out: --ssh and --secret give access to the build alone"
        )
    return url


def check_build_argument(text: str) -> str:
    """``NAME=value`` for the Dockerfile."""
    name = text.partition("=")[0]
    if not _BUILD_ARGUMENT.fullmatch(text):
        raise UsageError(f"{name!r} is no build argument; write NAME=value")
    if _SECRET.search(text):
        raise UsageError(
            f"the build argument {name} has an address with a password or token in it, which every "
            "copy of the image would carry; leave it out: --ssh and --secret give access to the "
            "build alone"
        )
    return text
