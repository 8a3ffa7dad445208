"""Builds as they are needed: once per key, ahead and side by side where that is safe."""

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

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.errors import WorkerError
from skipjack.execute.commands import CommandRunner, Ended, Task
from skipjack.sweep.commands import environment
from skipjack.sweep.commands.build_trees import NOTHING, BuildTrees, Left, Tree
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.failures import failure
from skipjack.sweep.commands.in_place import stamps_of
from skipjack.sweep.commands.sources import SourceWatch
from skipjack.sweep.commands.working_directory import Before, WorkingDirectory
from skipjack.sweep.heat.thermal import Thermal
from skipjack.sweep.outcome import Outcome

log = logging.getLogger(__name__)

_OF_MAKE = ("MAKEFLAGS", "MFLAGS", "GNUMAKEFLAGS")
"""They are others in each recipe."""
_OF_TOOLS = frozenset(
    (
        *("CC", "CXX", "CPP", "FC", "AS", "AR", "LD", "NVCC", "CUDACXX", "CUDAHOSTCXX", "HIPCXX"),
        *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "PKG_CONFIG_PATH"),
        *("CMAKE_PREFIX_PATH", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "SYSROOT", "SDKROOT"),
    )
)


class CommandBuilder:
    """The builds of a sitting. `ready` is for one thread."""

    def __init__(
        self,
        spec: CommandSpec,
        watch: SourceWatch,
        stop: Callable[[], bool],
        thermal: Thermal | None = None,
    ) -> None:
        assert spec.build is not None
        self._spec, self._command, self._watch = spec, spec.build, watch
        self.notes: list[str] = []
        self._closing = False
        self._stop = lambda: self._closing or stop()
        self._trees = BuildTrees(spec.state_dir / "builds", spec.quota_bytes)
        self._count = 0
        self._counting = threading.Lock()
        self._failed: dict[str, Outcome] = {}
        self._wanted: dict[str, Config] = {}
        self._ahead: dict[str, Future[Tree | Outcome]] = {}
        self._pool: ThreadPoolExecutor | None = None
        self._runners: queue.SimpleQueue[CommandRunner] = queue.SimpleQueue()
        self._all_runners: list[CommandRunner] = []
        in_place = spec.build_output or any(tree.left.files for tree in self._trees.trees)
        self._in_place: bool | None = True if in_place else None
        """Whether builds write into the working directory; None: not known."""
        self._place = WorkingDirectory(
            spec.workdir, spec.build_output, (spec.state_dir,), self._trees, self._note
        )
        self._passing: Tree | None = None
        """A build that cannot be kept, while it lies there."""
        self._in_use = ""
        self._thermal = thermal
        self._adopting = False
        self._adoptee: Tree | None = None
        self._trees.depends_on = self._salt()

    @property
    def builds(self) -> int:
        return self._count

    def want(self, points: Sequence[Config]) -> None:
        """These are needed soon, in this order."""
        self._wanted = {self._spec.build_key(point): point for point in points}
        if self._spec.build_cores:
            self._start_ahead(self._wanted)

    def ready(self, point: Config) -> tuple[Tree | Outcome, float]:
        """The build of a point, in its place, or how it failed; and the seconds that it took."""
        key = self._in_use = self._spec.build_key(point)
        built, seconds = self._get(key, point)
        if isinstance(built, Tree) and built.left.files:
            self._place.put_back(built)
        if self._spec.build_cores:
            self._start_ahead(self._wanted)
        return built, seconds

    def close(self) -> None:
        """End builds that still run, keep those that are made."""
        self._closing = True
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        for runner in self._all_runners:
            runner.close()
        self._trees.close()

    def forget(self) -> None:
        """What was built before is not used again."""
        for tree in self._trees.trees:
            self._trees.discard(tree.key)

    def adopt_first(self) -> None:
        """The first point that is wanted finds its build in the working directory."""
        self._adopting = True

    def _adopted(self, key: str) -> Tree | None:
        """What lay in the working directory before we came, until another build is made."""
        if self._adopting:
            self._adopting = False
            self._adoptee = Tree(key, self._trees.begin(key), 0.0, 0)
        return self._adoptee if self._adoptee and self._adoptee.key == key else None

    # one build

    def _get(self, key: str, point: Config) -> tuple[Tree | Outcome, float]:
        if key in self._failed:
            return replace(self._failed[key], build_seconds=0.0), 0.0
        if key in self._ahead:
            return self._take(key)
        if self._passing and self._passing.key == self._place.lies_here == key:
            return self._passing, 0.0
        tree = self._adopted(key) or self._trees.find(key)
        if tree is not None and self._place.may_return(tree):
            return tree, 0.0
        others = self._others(key)
        if not others:
            return _with_seconds(self._build(key, point, alone=True))
        # No build runs beside a run: all of this batch come first.
        self._start_ahead({key: point, **others})
        for one in (key, *others):
            self._ahead[one].exception()
        return self._take(key)

    def _others(self, key: str) -> dict[str, Config]:
        """What else to build now."""
        if self._in_place is not False or self._spec.build_jobs < 2:
            return {}
        later = (one for one in self._wanted.items() if one[0] != key and self._to_build(one[0]))
        return dict(islice(later, self._spec.build_jobs - 1))

    def _to_build(self, key: str) -> bool:
        return not (key in self._trees or key in self._failed or key in self._ahead)

    def _start_ahead(self, points: Mapping[str, Config]) -> None:
        """Start as many of these builds as may run at a time."""
        if self._in_place is not False:
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._spec.build_jobs)
        for key, point in points.items():
            if len(self._ahead) >= 2 * self._spec.build_jobs:
                return
            if self._to_build(key):
                self._ahead[key] = self._pool.submit(self._build, key, point, alone=False)

    def _take(self, key: str) -> tuple[Tree | Outcome, float]:
        return _with_seconds(self._ahead.pop(key).result())

    def _build(self, key: str, point: Config, alone: bool) -> Tree | Outcome:
        """Build; `alone`, nothing else writes into the working directory meanwhile."""
        spec = self._spec
        directory = self._trees.begin(key)
        config = spec.config(point, {})
        files = environment.write_files(directory.parent, config, point, build_dir=directory)
        task = Task(
            self._command.filled(spec.placeholders(point, config, files)),
            spec.workdir,
            self._trees.log_of(key),
            environment.environment(config, files, spec.environment),
            spec.build_timeout_s,
            cores=spec.build_cores,
        )
        before = self._place.before_build() if alone else None
        self._adoptee = None
        if self._thermal and (note := self._thermal.before_build()):
            self._note(note)
        try:
            ended = self._run(task)
        except WorkerError as error:
            self._trees.discard(key)
            return Outcome(Status.ERROR, reason=f"the build: {error}")
        if not ended.ok:
            self._left(before)
            self._trees.discard(key)
            failed = replace(failure(ended, build=True), seconds=0.0, build_seconds=ended.seconds)
            self._failed[key] = failed
            return failed
        return self._keep(key, directory, ended, before)

    def _run(self, task: Task) -> Ended:
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

    # what it left in the working directory

    def _keep(self, key: str, directory: Path, ended: Ended, before: Before | None) -> Tree:
        spec = self._spec
        # What changes in the working directory beside a build that has its own is somebody else's.
        apart = any(directory.iterdir()) and not spec.build_output
        left, lasting = NOTHING if apart else self._left(before), True
        if before and left is None:
            lasting = False  # it may have written anywhere
        left = left or NOTHING
        if before and not spec.build_output:
            # One that left nothing may have had nothing to do: the next one will tell.
            nothing = lasting and not apart and not left.files
            self._in_place = None if nothing else bool(left.files) or not lasting
            if nothing:
                self._note(
                    "a build left nothing in $SKIPJACK_BUILD_DIR and nothing in the working "
                    "directory; where it writes elsewhere, builds overwrite each other unnoticed"
                )
        size = sum(stamp[2] for stamp in stamps_of(spec.workdir, left.files).values())
        if size > spec.quota_bytes:
            self._note(f"a build leaves {size >> 20} MiB in {spec.workdir}, more than may be kept")
            lasting = False
        if lasting:
            pinned = [self._in_use, *self._ahead]
            tree = self._trees.finish(key, ended.seconds, left, spec.workdir, pinned)
        else:
            tree = self._passing = Tree(key, directory, ended.seconds, size)
        if self._in_place:
            self._place.stands(key)
        return tree

    def _left(self, before: Before | None) -> Left | None:
        """What a build that is over left in the working directory; None: not known."""
        left = self._place.after_build(before) if before else None
        if left is not None:
            self._watch.wrote(left.own)
        return left

    def _salt(self) -> str:
        """What all builds depend on."""
        spec = self._spec
        parts: dict[str, Any] = {
            "command": self._command.words,
            "base": spec.base,
            "nested": spec.nested,
            "workdir": str(spec.workdir),
            "environment": dict(spec.environment),
            "output": spec.build_output,
            "tools": {name: os.environ[name] for name in os.environ if _is_of_tools(name)},
            # Without a look at the sources there is no telling whether they changed.
            "sources": self._watch.digest() or secrets.token_hex(),
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            log.warning("%s", text)


def _is_of_tools(name: str) -> bool:
    """Whether a variable is one that compilers read."""
    return name in _OF_TOOLS or (name.endswith("FLAGS") and name not in _OF_MAKE)


def _with_seconds(built: Tree | Outcome) -> tuple[Tree | Outcome, float]:
    return built, built.seconds if isinstance(built, Tree) else built.build_seconds
