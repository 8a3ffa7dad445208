"""What may be the name of an image, a branch, a version: nothing that looks like an option."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.fleet.images import names


@pytest.mark.parametrize(
    "name",
    [
        "my_img",
        "my_img:latest",
        "rocm/miopen-private:my_img",
        "registry.example.org:5000/team/a__b:V1.2",
        f"img@sha256:{'0' * 64}",
        f"sha256:{'f' * 64}",
    ],
)
def test_names_of_images(name: str) -> None:
    assert names.check_image(name) == name


@pytest.mark.parametrize(
    "name", ["", "-it", "My_Img", "a b", "img:", "img:-x", "/img", "a//b", "img;ls", "x" * 256]
)
def test_what_is_no_image(name: str) -> None:
    with pytest.raises(UsageError, match="not the name of an image"):
        names.check_image(name)


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("my_img", "rocm/miopen-private:my_img"),
        ("my_img:v2", "rocm/miopen-private:my_img-v2"),
        ("team/my_img", "rocm/miopen-private:my_img"),
    ],
)
def test_an_image_is_a_tag_in_a_repository(image: str, expected: str) -> None:
    assert names.in_repository(image, "rocm/miopen-private") == expected


def test_a_repository_has_no_tag() -> None:
    with pytest.raises(UsageError, match="without a tag"):
        names.in_repository("my_img", "rocm/miopen-private:other")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (names.check_branch, "release/rocm-rel-6.2", "--upload-pack=evil"),
        (names.check_branch, "develop", "a..b"),
        (names.check_rocm_version, "6.2.4", "latest"),
        (names.check_rocm_version, "6.2", "-6"),
        (names.check_registry, "registry.example.org:5000", "--help"),
        (names.check_user, "me@example.org", "-u"),
        (names.check_git_repository, "https://example.org/m.git", "--upload-pack=evil"),
        (names.check_git_repository, "git@example.org:m.git", "ext::sh -c evil"),
        (names.check_git_repository, "a-b@example.org:m.git", "-oProxyCommand@example.org:m.git"),
        (names.check_image, "a-b:c-d", "-v"),
        (names.check_build_argument, "A=b c", "-A=b"),
    ],
)
def test_other_words(check: Callable[[str], str], good: str, bad: str) -> None:
    assert check(good) == good
    with pytest.raises(UsageError):
        check(bad)


@pytest.mark.parametrize(
    "url",
    [
        "https://me:hunter2@example.org/m.git",
        "https://hunter2@example.org/m.git",
        "http://hunter2@example.org/m.git",
        "https://hunter2:@example.org/m.git",
        "ssh://me:hunter2@example.org/m.git",
    ],
)
def test_a_password_or_token_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    for check, text in (
        (names.check_git_repository, url),
        (names.check_build_argument, f"MIOPEN_REPOSITORY={url}"),
    ):
        with pytest.raises(UsageError, match=r"contains .*a password or token") as caught:
            check(text)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["ssh://git@example.org/m.git", "https://example.org/@me/m.git", "git@example.org:m.git"]
)
def test_a_user_of_ssh_is_no_secret(url: str) -> None:
    assert names.check_git_repository(url) == url


def test_images_know_nothing_of_machines() -> None:
    for path in Path(names.__file__).parent.glob("*.py"):
        assert "fleet.machines" not in path.read_text(), path.name
