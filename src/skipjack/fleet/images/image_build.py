"""Building an image from Skipjack's own sources and a Dockerfile, in a temporary directory."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import skipjack
from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.images import commands, names
from skipjack.fleet.images.commands import ImageRecipe
from skipjack.fleet.images.container_engine import ContainerEngine, find_engine
from skipjack.fleet.images.names import identity

DOCKERFILE = Path(__file__).with_name("Dockerfile")
_EXTRA = re.compile(r"""\s*(?:\band\b)?\s*extra\s*==\s*['"]([\w-]+)['"]""")


def build(
    recipe: ImageRecipe,
    *,
    file: Path | None = None,
    engine: ContainerEngine | None = None,
    quiet_stdout: bool = False,
) -> str:
    """Build an image with the engine's output on our terminal; returns the image's id."""
    check(recipe)
    dockerfile = DOCKERFILE if file is None else file
    if not dockerfile.is_file():
        raise UsageError(f"the Dockerfile {dockerfile} does not exist; name one with --file")
    engine = engine or find_engine()
    content = dockerfile.read_bytes()
    if dockerfile == DOCKERFILE:
        content = commands.with_mounts(content.decode(), recipe.ssh, recipe.secrets).encode()
    # Older releases of docker need it for mounts.
    more = {"DOCKER_BUILDKIT": "1"} if recipe.ssh or recipe.secrets else {}
    with build_context(content) as place:
        line = commands.build_image(
            recipe, str(place / "Dockerfile"), str(place), skipjack.__version__
        )
        code = engine.show(line, quiet_stdout=quiet_stdout, more_env=more)
    if code:
        raise SkipjackError(
            f"{engine.name} could not build {recipe.tag}: it ended with exit code {code}; see its "
            "output above"
        )
    return identity(engine, recipe.tag).id


def check(recipe: ImageRecipe) -> None:
    """Refuse values that the engine or git could take for options."""
    names.check_new_image(recipe.tag)
    names.check_branch(recipe.branch)
    if recipe.rocm_version:
        names.check_rocm_version(recipe.rocm_version)
    if recipe.repository:
        names.check_git_repository(recipe.repository)
    for text in recipe.build_arguments:
        names.check_build_argument(text)
    for text in recipe.ssh:
        commands.check_ssh(text)
    for text in recipe.secrets:
        commands.check_secret(text)


@contextmanager
def build_context(dockerfile: bytes) -> Iterator[Path]:
    """A directory with this Dockerfile and the sources of this Skipjack in ``skipjack/``."""
    with tempfile.TemporaryDirectory(prefix="skipjack-image-") as folder:
        place = Path(folder)
        (place / "Dockerfile").write_bytes(dockerfile)
        package = Path(skipjack.__file__).parent
        sources = place / "skipjack"
        shutil.copytree(
            package, sources / "src" / "skipjack", ignore=shutil.ignore_patterns("__pycache__")
        )
        checkout = package.parent.parent
        described = [checkout / name for name in ("pyproject.toml", "README.md")]
        if package.parent.name == "src" and all(path.is_file() for path in described):
            for path in described:
                shutil.copyfile(path, sources / path.name)
        else:
            (sources / "pyproject.toml").write_text(_project(_requirements()), encoding="utf-8")
        yield place


def _requirements() -> Sequence[str]:
    try:
        return importlib.metadata.requires("skipjack") or []
    except importlib.metadata.PackageNotFoundError:
        raise SkipjackError(
            "the dependencies of Skipjack are unknown, because it was not installed by pip; "
            "install it with pip"
        ) from None


def _project(requirements: Sequence[str]) -> str:
    """A pyproject.toml of the installed package, from which pip can install it again."""
    always: list[str] = []
    extras: dict[str, list[str]] = {}
    for text in requirements:
        name, _, marker = text.partition(";")
        found = _EXTRA.search(marker)
        rest = _EXTRA.sub("", marker).strip()
        where = extras.setdefault(found[1], []) if found else always
        where.append(f"{name.strip()}; {rest}" if rest else name.strip())
    # Lists of plain strings are the same in JSON and TOML.
    options = "".join(f"{name} = {json.dumps(texts)}\n" for name, texts in extras.items())
    return (
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n\n'
        f'[project]\nname = "skipjack"\nversion = {json.dumps(skipjack.__version__)}\n'
        f'requires-python = ">=3.11"\ndependencies = {json.dumps(always)}\n\n'
        '[project.scripts]\nskipjack = "skipjack.cli.main:run"\n\n'
        f"[project.optional-dependencies]\n{options}\n"
        '[tool.hatch.build.targets.wheel]\npackages = ["src/skipjack"]\n'
    )
