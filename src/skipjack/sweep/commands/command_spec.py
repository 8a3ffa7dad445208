"""The specification of a benchmark: how it is built and run, and where its result is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

from skipjack.core import Config
from skipjack.errors import UsageError
from skipjack.sweep.bench import build_part
from skipjack.sweep.commands.build_store import DEFAULT_QUOTA_BYTES
from skipjack.sweep.commands.command import SPECIAL, CommandTemplate, RunFiles, placeholders
from skipjack.sweep.commands.results import ResultReader
from skipjack.sweep.commands.sources import SourceTracker, is_source, result_patterns
from skipjack.sweep.configs import overlay

_GIT = ".git"


class MorePlaceholders(Protocol):
    """Additional placeholders for the commands of a point."""

    names: tuple[str, ...]

    def values(self, point: Config, config: Mapping[str, Any], directory: Path) -> dict[str, str]:
        """Their values; files may be written into the directory."""
        ...


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """Everything that a `CommandBench` needs."""

    run: CommandTemplate
    result: ResultReader
    workdir: Path
    state_dir: Path
    """The directory for kept builds and for the files of runs."""
    base: Mapping[str, Any] = field(default_factory=dict)
    build: CommandTemplate | None = None
    no_rebuild: tuple[str, ...] | None = None
    """Parameters whose change needs no new build; None: every change needs one."""
    nested: bool = False
    """Whether points reach into nested objects of the base config."""
    build_timeout_s: float | None = None
    run_timeout_s: float | None = None
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    build_jobs: int = 1
    """Parallel builds, if they write only into their own directory."""
    run_cores: tuple[int, ...] = ()
    """Cores for runs; builds use the others, so they can go on during runs."""
    build_output: tuple[str | Path, ...] = ()
    """Paths below the working directory that a build writes; empty: detect them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Environment variables for all commands."""
    parameters: tuple[str, ...] | None = None
    """The swept parameters; None: not known, so placeholders are checked when filled in."""
    not_sources: tuple[Path, ...] = ()
    """Files that no build depends on, such as the sweep file."""
    power_log: Path | None = None
    """The power log of PTDaemon, which runs during the sweep."""
    extra_placeholders: MorePlaceholders | None = None
    """Additional placeholders, for harnesses that need their own files."""

    def check(self) -> None:
        """Raise `UsageError` for whatever cannot work, before anything is run."""
        if not self.workdir.is_dir():
            raise UsageError(f"the working directory {self.workdir} does not exist")
        known = {
            *self.base,
            *(self.parameters or ()),
            *(self.extra_placeholders.names if self.extra_placeholders else ()),
        }
        if self.parameters is None:
            build = self.build.placeholders if self.build else frozenset()
            known |= self.run.placeholders | build | self.result.placeholders
        self.run.check(known, self.workdir, "--run-cmd")
        if self.build is not None:
            self.build.check(known, self.workdir, "--build-cmd")
            for name in sorted(self.build.placeholders & {"run_dir", "user_conf"}):
                raise UsageError(f"--build-cmd: {{{name}}} exists only for runs; remove it")
        for name in sorted(self.result.placeholders - known - set(SPECIAL)):
            raise UsageError(f"--result: {{{name}}} is neither a parameter nor in the base config")
        words = self.build.words if self.build else ()
        _check_outputs(self.build_output, self.workdir, words, self.not_sources)
        missing = set(self.run_cores) - os.sched_getaffinity(0)
        if missing:
            raise UsageError(
                f"--run-cores: this process may not use cores {_listed(missing)}; "
                f"choose from {_listed(os.sched_getaffinity(0))}"
            )
        if self.build_jobs < 1:
            raise UsageError(f"--build-jobs must be at least 1, not {self.build_jobs}")

    def source_tracker(self) -> SourceTracker:
        """A tracker of the sources below the working directory."""
        power = (self.power_log,) if self.power_log else ()
        paths = (*self.not_sources, *power, *map(Path, self.build_output))
        exclude = (*result_patterns(self.result), *paths)
        return SourceTracker(self.workdir, self.state_dir, exclude)

    def config(self, point: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The base config with a point and settings laid over it."""
        config = overlay(self.base, point, nested=self.nested)
        return overlay(config, settings, nested=self.nested) if settings else config

    def placeholders(
        self, point: Config, config: Mapping[str, Any], files: RunFiles
    ) -> dict[str, str]:
        """The values of the placeholders in the commands of a point."""
        values = placeholders(config, files)
        if self.extra_placeholders is not None:
            values |= self.extra_placeholders.values(point, config, files.config.parent)
        return values

    def build_key(self, point: Config) -> str:
        """The part of a point that its build depends on, as text; empty without a build command."""
        return build_part(point, self.no_rebuild).key if self.build is not None else ""

    @property
    def build_cores(self) -> tuple[int, ...]:
        """Cores for builds during runs; empty if builds must wait for runs."""
        if not self.run_cores:
            return ()
        return tuple(sorted(os.sched_getaffinity(0) - set(self.run_cores)))


def _listed(cores: Iterable[int]) -> str:
    return ",".join(map(str, sorted(cores)))


def _check_outputs(
    outputs: Sequence[str | Path], workdir: Path, words: Iterable[str], files: Iterable[Path]
) -> None:
    """Raise `UsageError` if build outputs contain files of the user, which builds overwrite.

    `words` are those of the build command; `files` are other files that are read.
    """
    read = [workdir / word for word in words if is_source(word) and (workdir / word).is_file()]
    for output in outputs:
        if PurePath(output).is_absolute() or ".." in PurePath(output).parts:
            raise UsageError(
                f"--build-output {output} is outside the working directory {workdir}; "
                "give a path below it"
            )
        path = (workdir / output).resolve()
        if path == workdir.resolve():
            raise UsageError(
                f"--build-output {output} is the working directory itself; "
                "name the files or directories in it that builds write"
            )
        if path in workdir.resolve().parents:
            raise UsageError(
                f"--build-output {output} contains the working directory {workdir}; "
                "give a path below it"
            )
        for one in (*read, *files):
            if one.resolve() == path or path in one.resolve().parents:
                raise UsageError(
                    f"--build-output {output} contains {one.name}, which is read; "
                    "name only files and directories that builds write"
                )
        inside = path.parts[len(workdir.resolve().parts) :]
        below = (name for _, folders, names in os.walk(path) for name in (*folders, *names))
        if _GIT in inside or _GIT in below:
            raise UsageError(
                f"--build-output {output} contains a {_GIT} directory; name only what builds write"
            )
