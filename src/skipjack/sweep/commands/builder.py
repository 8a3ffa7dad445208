"""Builds on demand: once per key, ahead and in parallel where that is safe; how commands fail."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.errors import WorkerError
from skipjack.execute import CommandRequest, CommandResult, CommandRunner
from skipjack.sweep.bench import RunOutcome, Thermal
from skipjack.sweep.commands import command
from skipjack.sweep.commands.build_store import NO_OUTPUT, BuildOutput, BuildStore, KeptBuild
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.snapshots import stamps_of
from skipjack.sweep.commands.sources import SourceTracker
from skipjack.sweep.commands.working_directory import DirectoryState, WorkingDirectory

# The outcome of a command that failed: its status, and one sentence.

_SIGNALS_IN_SHELL = range(129, 160)
"""Exit codes with which a shell reports that its command was ended by a signal."""
_BUILD = (Status.BUILD_TIMEOUT, Status.BUILD_CRASH, Status.BUILD_ERROR)
_RUN = (Status.TIMEOUT, Status.CRASH, Status.CRASH)


def failure(ended: CommandResult, *, build: bool) -> RunOutcome:
    """The outcome of a failed build, or of a failed run."""
    what = "the build" if build else "the run"
    late, died, refused = _BUILD if build else _RUN
    reason = f"{what} {ended.describe()}"
    if ended.cause == "timeout":
        status = late
    elif ended.out_of_memory():
        status, reason = Status.OUT_OF_MEMORY, f"{what} ran out of memory: it {ended.describe()}"
    else:
        status = died if ended.code < 0 or ended.code in _SIGNALS_IN_SHELL else refused
    return RunOutcome(status, reason=reason, seconds=ended.seconds, log=str(ended.output))


# Builds on demand: once per key, in advance and in parallel where that is safe.

log = logging.getLogger(__name__)

_MAKE_VARIABLES = ("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS")
"""These differ in each recipe of a Makefile."""
_TOOL_VARIABLES = frozenset(
    (
        *("CC", "CXX", "CPP", "FC", "AS", "AR", "LD", "NVCC", "CUDACXX", "CUDAHOSTCXX", "HIPCXX"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "PKG_CONFIG_PATH"),
        *("CMAKE_PREFIX_PATH", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "SYSROOT", "SDKROOT"),
    )
)


class CommandBuilder:
    """The builds of a session. `build_for` must be called from one thread only."""

    def __init__(
        self,
        spec: CommandSpec,
        tracker: SourceTracker,
        stop: Callable[[], bool],
        thermal: Thermal | None = None,
    ) -> None:
        assert spec.build is not None
        self._spec, self._command, self._tracker = spec, spec.build, tracker
        self.notes: list[str] = []
        self._closing = False
        self._stop = lambda: self._closing or stop()
        self._trees = BuildStore(spec.state_dir / "builds", spec.quota_bytes)
        self._count = 0
        self._counting = threading.Lock()
        self._failed: dict[str, RunOutcome] = {}
        self._upcoming: dict[str, Config] = {}
        self._ahead: dict[str, Future[KeptBuild | RunOutcome]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._runners: queue.SimpleQueue[CommandRunner] = queue.SimpleQueue()
        self._all_runners: list[CommandRunner] = []
        in_place = spec.build_output or any(tree.output.files for tree in self._trees.trees)
        self._in_place: bool | None = True if in_place else None
        """Whether builds write into the working directory; None: not known yet."""
        self._place = WorkingDirectory(
            spec.workdir, spec.build_output, (spec.state_dir,), self._trees, self._note
        )
        self._unkept_build: KeptBuild | None = None
        """A build that cannot be kept, while its files are in the working directory."""
        self._in_use = ""
        self._thermal = thermal
        self._adopting = False
        self._adopted_build: KeptBuild | None = None
        self._trees.depends_on = self._salt()

    @property
    def builds(self) -> int:
        return self._count

    def prefetch(self, points: Sequence[Config]) -> None:
        """Announce points whose builds are needed soon, in this order."""
        self._upcoming = {self._spec.build_key(point): point for point in points}
        if self._spec.build_cores:
            self._start_ahead(self._upcoming)

    def build_for(self, point: Config) -> tuple[KeptBuild | RunOutcome, float]:
        """The build of a point, ready to run, or how it failed; and the seconds that it took."""
        key = self._in_use = self._spec.build_key(point)
        built, seconds = self._get(key, point)
        if isinstance(built, KeptBuild) and built.output.files:
            self._place.restore(built)
        if self._spec.build_cores:
            self._start_ahead(self._upcoming)
        return built, seconds

    def close(self) -> None:
        """End builds that still run; keep the finished ones."""
        self._closing = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for runner in self._all_runners:
            runner.close()
        self._trees.close()

    def forget(self) -> None:
        """Discard all builds."""
        for tree in self._trees.trees:
            self._trees.discard(tree.key)

    def adopt_first(self) -> None:
        """Take the files in the working directory for the build of the first point."""
        self._adopting = True

    def _adopt(self, key: str) -> KeptBuild | None:
        """The build that was in the working directory at the start, until another one is made."""
        if self._adopting:
            self._adopting = False
            self._adopted_build = KeptBuild(key, self._trees.begin(key), 0.0, 0)
        return (
            self._adopted_build if self._adopted_build and self._adopted_build.key == key else None
        )

    # one build

    def _get(self, key: str, point: Config) -> tuple[KeptBuild | RunOutcome, float]:
        if key in self._failed:
            return replace(self._failed[key], build_seconds=0.0), 0.0
        if key in self._ahead:
            return self._take(key)
        if self._unkept_build and self._unkept_build.key == self._place.current_key == key:
            return self._unkept_build, 0.0
        tree = self._adopt(key) or self._trees.find(key)
        if tree is not None and self._place.can_restore(tree):
            return tree, 0.0
        others = self._others(key)
        if not others:
            return _with_seconds(self._build(key, point, alone=True))
        # Builds must not disturb runs, so the whole batch is built before the next run.
        self._start_ahead({key: point, **others})
        for one in (key, *others):
            self._ahead[one].exception()
        return self._take(key)

    def _others(self, key: str) -> dict[str, Config]:
        """Further points to build in parallel with this one."""
        if self._in_place is not False or self._spec.build_jobs < 2:
            return {}
        later = (one for one in self._upcoming.items() if one[0] != key and self._to_build(one[0]))
        return dict(islice(later, self._spec.build_jobs - 1))

    def _to_build(self, key: str) -> bool:
        return not (key in self._trees or key in self._failed or key in self._ahead)

    def _start_ahead(self, points: Mapping[str, Config]) -> None:
        """Start as many of these builds as the options allow."""
        if self._in_place is not False:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._spec.build_jobs)
        for key, point in points.items():
            if len(self._ahead) >= 2 * self._spec.build_jobs:
                return
            if self._to_build(key):
                self._ahead[key] = self._pool.submit(self._build, key, point, alone=False)

    def _take(self, key: str) -> tuple[KeptBuild | RunOutcome, float]:
        return _with_seconds(self._ahead.pop(key).result())

    def _build(self, key: str, point: Config, alone: bool) -> KeptBuild | RunOutcome:
        """Build a point. With `alone`, nothing else writes into the working directory meanwhile."""
        spec = self._spec
        directory = self._trees.begin(key)
        config = spec.config(point, {})
        files = command.write_files(directory.parent, config, point, build_dir=directory)
        task = CommandRequest(
            self._command.filled(spec.placeholders(point, config, files)),
            spec.workdir,
            self._trees.log_of(key),
            command.environment(config, files, spec.environment),
            spec.build_timeout_s,
            cores=spec.build_cores,
        )
        before = self._place.before_build() if alone else None
        self._adopted_build = None
        if self._thermal and (note := self._thermal.before_build()):
            self._note(note)
        try:
            ended = self._run(task)
        except WorkerError as error:
            self._trees.discard(key)
            return RunOutcome(Status.ERROR, reason=f"the build: {error}")
        if not ended.ok:
            self._build_output(before)
            self._trees.discard(key)
            failed = replace(failure(ended, build=True), seconds=0.0, build_seconds=ended.seconds)
            self._failed[key] = failed
            return failed
        return self._keep(key, directory, ended, before)

    def _run(self, task: CommandRequest) -> CommandResult:
        with self._counting:
            self._count += 1
        try:
            runner = self._runners.get_nowait()
        except queue.Empty:
            runner = CommandRunner()
            self._all_runners.append(runner)
        try:
            ended = runner.run(task, self._stop)
        finally:
            self._runners.put(runner)
        if ended.stopped:
            raise KeyboardInterrupt
        return ended

    # files that a build leaves in the working directory

    def _keep(
        self, key: str, directory: Path, ended: CommandResult, before: DirectoryState | None
    ) -> KeptBuild:
        spec = self._spec
        # A build with a directory of its own is not blamed for changes in the working directory.
        apart = any(directory.iterdir()) and not spec.build_output
        output, lasting = NO_OUTPUT if apart else self._build_output(before), True
        if before and output is None:
            lasting = False  # its files are not known
        output = output or NO_OUTPUT
        if before and not spec.build_output:
            # A build that left no files may have had nothing to do: decide after the next one.
            nothing = lasting and not apart and not output.files
            self._in_place = None if nothing else bool(output.files) or not lasting
            if nothing:
                self._note(
                    "a build wrote neither to $SKIPJACK_BUILD_DIR nor to the working directory; if "
                    "it writes elsewhere, builds overwrite each other unnoticed"
                )
        size = sum(stamp[2] for stamp in stamps_of(spec.workdir, output.files).values())
        if size > spec.quota_bytes:
            self._note(f"a build left {size >> 20} MiB in {spec.workdir}, more than the quota")
            lasting = False
        if lasting:
            pinned = [self._in_use, *self._ahead]
            tree = self._trees.finish(key, ended.seconds, output, spec.workdir, pinned)
        else:
            tree = self._unkept_build = KeptBuild(key, directory, ended.seconds, size)
        if self._in_place:
            self._place.set_current(key)
        return tree

    def _build_output(self, before: DirectoryState | None) -> BuildOutput | None:
        """The files that a finished build left in the working directory; None: not known."""
        output = self._place.after_build(before) if before else None
        if output is not None:
            self._tracker.wrote(output.own)
        return output

    def _salt(self) -> str:
        """A digest of what all builds depend on."""
        spec = self._spec
        parts: dict[str, Any] = {
            "command": self._command.words,
            "base": spec.base,
            "nested": spec.nested,
            "workdir": str(spec.workdir),
            "environment": dict(spec.environment),
            "output": spec.build_output,
            "tools": {name: os.environ[name] for name in os.environ if _is_tool_variable(name)},
            # If the sources are not known, builds are used in this session only.
            "sources": self._tracker.digest() or secrets.token_hex(),
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            log.warning("%s", text)


def _is_tool_variable(name: str) -> bool:
    """Whether an environment variable is one that compilers read."""
    return name in _TOOL_VARIABLES or (name.endswith("FLAGS") and name not in _MAKE_VARIABLES)


def _with_seconds(built: KeptBuild | RunOutcome) -> tuple[KeptBuild | RunOutcome, float]:
    return built, built.seconds if isinstance(built, KeptBuild) else built.build_seconds
