"""Building an image: Skipjack's own sources and a Dockerfile, in a directory that is gone after."""

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
from skipjack.fleet.images import build_access, commands, names
from skipjack.fleet.images.commands import Recipe
from skipjack.fleet.images.container_engine import ContainerEngine, find_engine
from skipjack.fleet.images.identity import identity

DOCKERFILE = Path(__file__).with_name("Dockerfile")
_EXTRA = re.compile(r"""\s*(?:\band\b)?\s*extra\s*==\s*['"]([\w-]+)['"]""")


def build(
    recipe: Recipe,
    *,
    file: Path | None = None,
    engine: ContainerEngine | None = None,
    quiet_stdout: bool = False,
) -> str:
    """Build an image with what the engine says on our terminal; gives the image's id."""
    check(recipe)
    dockerfile = DOCKERFILE if file is None else file
    if not dockerfile.is_file():
        raise UsageError(f"there is no Dockerfile {dockerfile}; --file names one")
    engine = engine or find_engine()
    content = dockerfile.read_bytes()
    if dockerfile == DOCKERFILE:
        content = build_access.with_mounts(content.decode(), recipe.ssh, recipe.secrets).encode()
    # Older releases of docker mount nothing without it.
    more = {"DOCKER_BUILDKIT": "1"} if recipe.ssh or recipe.secrets else {}
    with build_context(content) as place:
        line = commands.build_image(
            recipe, str(place / "Dockerfile"), str(place), skipjack.__version__
        )
        code = engine.show(line, quiet_stdout=quiet_stdout, more_env=more)
    if code:
        raise SkipjackError(
            f"{engine.name} could not build {recipe.tag}: it ended with exit code {code}, and what "
            "it says above is why"
        )
    return identity(engine, recipe.tag).id


def check(recipe: Recipe) -> None:
    """Refuse what the engine or git could take for something else."""
    names.check_new_image(recipe.tag)
    names.check_branch(recipe.branch)
    if recipe.rocm_version:
        names.check_rocm_version(recipe.rocm_version)
    if recipe.repository:
        names.check_git_repository(recipe.repository)
    for text in recipe.build_arguments:
        names.check_build_argument(text)
    for text in recipe.ssh:
        build_access.check_ssh(text)
    for text in recipe.secrets:
        build_access.check_secret(text)


@contextmanager
def build_context(dockerfile: bytes) -> Iterator[Path]:
    """A directory with this Dockerfile and ``skipjack/``, from which pip installs this very one."""
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
            "what Skipjack depends on cannot be told: it was not installed by pip; install it so"
        ) from None


def _project(requirements: Sequence[str]) -> str:
    """A description of the installed package that pip can install it by again."""
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
