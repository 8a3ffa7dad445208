"""A benchmark that is two commands: how it is built, how it is run, where its result is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, Protocol

from skipjack.core.config import Config
from skipjack.errors import UsageError
from skipjack.sweep.commands.build_trees import DEFAULT_QUOTA_BYTES
from skipjack.sweep.commands.command import SPECIAL, Command
from skipjack.sweep.commands.environment import RunFiles, placeholders
from skipjack.sweep.commands.results import ResultReader
from skipjack.sweep.commands.sources import SourceWatch, is_source, result_patterns
from skipjack.sweep.configs.overlay_config import overlay
from skipjack.sweep.ordering import build_part

_GIT = ".git"


class MorePlaceholders(Protocol):
    """More placeholders for the commands of a point."""

    names: tuple[str, ...]

    def values(self, point: Config, config: Mapping[str, Any], directory: Path) -> dict[str, str]:
        """What they stand for; files may be written into the directory."""
        ...


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """Everything that a `CommandBench` needs to know."""

    run: Command
    result: ResultReader
    workdir: Path
    state_dir: Path
    """For builds that are kept and for the files of runs."""
    base: Mapping[str, Any] = field(default_factory=dict)
    build: Command | None = None
    no_rebuild: tuple[str, ...] | None = None
    """Names whose change needs no new build; None: every change does."""
    nested: bool = False
    """Whether points are laid over the base config at every depth."""
    build_timeout_s: float | None = None
    run_timeout_s: float | None = None
    quota_bytes: int = DEFAULT_QUOTA_BYTES
    build_jobs: int = 1
    """Builds at a time, for those that write into their own directory."""
    run_cores: tuple[int, ...] = ()
    """Runs are kept on these and builds off them, so that builds go on beside runs."""
    build_output: tuple[str | Path, ...] = ()
    """Paths below the working directory that a build writes; empty: find out."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for all commands."""
    parameters: tuple[str, ...] | None = None
    """What is swept; None: not known, so placeholders are checked when they are filled in."""
    not_sources: tuple[Path, ...] = ()
    """Files that no build depends on, whatever they are called: the sweep file."""
    power_log: Path | None = None
    """PTDaemon's log of power, which goes on beside the runs."""
    further: MorePlaceholders | None = None
    """Placeholders besides, for harnesses that want files of their own."""

    def check(self) -> None:
        """Refuse what cannot work before anything is run."""
        if not self.workdir.is_dir():
            raise UsageError(f"the working directory {self.workdir} does not exist")
        known = {
            *self.base,
            *(self.parameters or ()),
            *(self.further.names if self.further else ()),
        }
        if self.parameters is None:
            build = self.build.placeholders if self.build else frozenset()
            known |= self.run.placeholders | build | self.result.placeholders
        self.run.check(known, self.workdir, "--run-cmd")
        if self.build is not None:
            self.build.check(known, self.workdir, "--build-cmd")
            for name in sorted(self.build.placeholders & {"run_dir", "user_conf"}):
                raise UsageError(f"--build-cmd: {{{name}}} is of a run, a build has none")
        for name in sorted(self.result.placeholders - known - set(SPECIAL)):
            raise UsageError(f"--result: {{{name}}} is neither a parameter nor in the base config")
        words = self.build.words if self.build else ()
        _check_outputs(self.build_output, self.workdir, words, self.not_sources)
        missing = set(self.run_cores) - os.sched_getaffinity(0)
        if missing:
            raise UsageError(
                f"--run-cores: this process may not use {_listed(missing)}; "
                f"choose from {_listed(os.sched_getaffinity(0))}"
            )
        if self.build_jobs < 1:
            raise UsageError(f"--build-jobs {self.build_jobs} builds nothing; give at least 1")

    def source_watch(self) -> SourceWatch:
        """Which files below the working directory are sources."""
        power = (self.power_log,) if self.power_log else ()
        paths = (*self.not_sources, *power, *map(Path, self.build_output))
        exclude = (*result_patterns(self.result), *paths)
        return SourceWatch(self.workdir, self.state_dir, exclude)

    def config(self, point: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
        """The base config with a point and settings laid over it."""
        config = overlay(self.base, point, nested=self.nested)
        return overlay(config, settings, nested=self.nested) if settings else config

    def placeholders(
        self, point: Config, config: Mapping[str, Any], files: RunFiles
    ) -> dict[str, str]:
        """What is filled into the commands of a point."""
        values = placeholders(config, files)
        if self.further is not None:
            values |= self.further.values(point, config, files.config.parent)
        return values

    def build_key(self, point: Config) -> str:
        """The part of a point that its build depends on, as text; empty without a build."""
        return build_part(point, self.no_rebuild).key if self.build is not None else ""

    @property
    def build_cores(self) -> tuple[int, ...]:
        """Those left for builds beside runs; empty if builds have to wait."""
        if not self.run_cores:
            return ()
        return tuple(sorted(os.sched_getaffinity(0) - set(self.run_cores)))


def _listed(cores: Iterable[int]) -> str:
    return ",".join(map(str, sorted(cores)))


def _check_outputs(
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
        inside = path.parts[len(workdir.resolve().parts) :]
        below = (name for _, folders, names in os.walk(path) for name in (*folders, *names))
        if _GIT in inside or _GIT in below:
            raise UsageError(
                f"--build-output {output} holds a {_GIT}; name what builds write, and nothing else"
            )
