"""Paths that a user names as what builds write: those that hold more than that are refused."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from skipjack.errors import UsageError
from skipjack.sweep.commands.sources import is_source

_KEPT_BY_GIT = ".git"


def check_outputs(
    outputs: Sequence[str | Path], workdir: Path, words: Iterable[str], files: Iterable[Path]
) -> None:
    """Builds that are used again are put there, so nothing of the user's may be in them.

    `words` are those of the build command, `files` others that are read: the sweep file.
    """
    read = [workdir / word for word in words if is_source(word) and (workdir / word).is_file()]
    for output in outputs:
        if PurePath(output).is_absolute() or ".." in PurePath(output).parts:
            raise UsageError(
                f"--build-output {output} leads out of the working directory {workdir}; "
                "give a path below it"
            )
        path = (workdir / output).resolve()
        if path == workdir.resolve():
            raise UsageError(
                f"--build-output {output} is the working directory itself; "
                "name the files or directories in it that builds write"
            )
        if path in workdir.resolve().parents:
            raise UsageError(f"--build-output {output} holds the working directory {workdir}")
        for one in (*read, *files):
            if one.resolve() == path or path in one.resolve().parents:
                raise UsageError(
                    f"--build-output {output} holds {one.name}, which no build writes; "
                    "name what builds write, and nothing else"
                )
        if _KEPT_BY_GIT in path.parts[len(workdir.resolve().parts) :] or _holds_git(path):
            raise UsageError(
                f"--build-output {output} holds a {_KEPT_BY_GIT}; "
                "name what builds write, and nothing else"
            )


def _holds_git(path: Path) -> bool:
    return any(
        _KEPT_BY_GIT in directories or _KEPT_BY_GIT in names
        for _, directories, names in os.walk(path)
    )
