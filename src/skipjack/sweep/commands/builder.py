"""Builds as they are needed: once per key, ahead and side by side where that is safe."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import queue
import secrets
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.errors import WorkerError
from skipjack.sweep.commands import environment
from skipjack.sweep.commands.build_trees import BuildTrees, Tree
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.failures import build_failure
from skipjack.sweep.commands.in_place import MOST_FILES, Snapshot, files_of, snapshot
from skipjack.sweep.commands.processes import CommandRunner, Ended, Task
from skipjack.sweep.commands.run_directories import write_files
from skipjack.sweep.commands.sources import sources_digest
from skipjack.sweep.heat.thermal import Thermal
from skipjack.sweep.outcome import Outcome

log = logging.getLogger(__name__)


class Builder:
    """The builds of a sitting. `ready` is for one thread."""

    def __init__(
        self, spec: CommandSpec, stop: Callable[[], bool], thermal: Thermal | None = None
    ) -> None:
        assert spec.build is not None
        self._spec, self._command = spec, spec.build
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
        self._in_place = True if spec.build_output else self._known_in_place()
        self._lies_here = ""
        """Key of the build whose files lie in the working directory."""
        self._passing: Tree | None = None
        """A build that cannot be kept, while it lies there."""
        self._in_use = ""
        self._made: dict[str, int] = {}
        """Times of files in the working directory as builds left them."""
        self._thermal = thermal
        self._adopting = False
        self._adoptee: Tree | None = None
        self.notes: list[str] = []
        self._trees.depends_on = self._salt()

    @property
    def builds(self) -> int:
        """How many were made."""
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
        if isinstance(built, Tree) and built.files and self._lies_here != key:
            self._trees.put_back(built, self._spec.workdir, self._spec.build_output)
            self._lies_here = key
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
        if self._passing and self._passing.key == self._lies_here == key:
            return self._passing, 0.0
        tree = self._adopted(key) or self._trees.find(key)
        if tree is not None and not self._edited(tree):
            return tree, 0.0
        others = self._others(key)
        if not others:
            built = self._build(key, point, alone=True)
            return built, _seconds(built)
        # No build runs beside a run: all of this batch come first.
        self._start_ahead({key: point, **others})
        for one in (key, *others):
            self._ahead[one].exception()
        return self._take(key)

    def _others(self, key: str) -> dict[str, Config]:
        """What else to build now."""
        if self._in_place is not False or self._spec.build_jobs < 2:
            return {}
        later = (
            (other, point)
            for other, point in self._wanted.items()
            if other != key and self._to_build(other)
        )
        return dict(item for item, _ in zip(later, range(self._spec.build_jobs - 1), strict=False))

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
        built = self._ahead.pop(key).result()
        return built, _seconds(built)

    def _build(self, key: str, point: Config, alone: bool) -> Tree | Outcome:
        """Build; `alone`, nothing else writes into the working directory meanwhile."""
        spec = self._spec
        directory = self._trees.begin(key)
        config = spec.config(point, {})
        files = write_files(directory.parent, config, point, build_dir=directory)
        task = Task(
            self._command.filled(spec.placeholders(point, config, files)),
            spec.workdir,
            self._trees.log_of(key),
            environment.environment(config, files, spec.environment),
            spec.build_timeout_s,
            cores=spec.build_cores,
        )
        before = self._look() if alone and not spec.build_output else None
        if alone:
            self._lies_here = ""
        self._adoptee = None
        if self._thermal and (note := self._thermal.before_build()):
            self._note(note)
        try:
            ended = self._run(task)
        except WorkerError as error:
            self._trees.discard(key)
            return Outcome(Status.ERROR, reason=f"the build: {error}")
        if not ended.ok:
            self._left_in_place(before)
            self._trees.discard(key)
            failed = replace(build_failure(ended), seconds=0.0, build_seconds=ended.seconds)
            self._failed[key] = failed
            return failed
        return self._keep(key, directory, ended, before, alone)

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

    def _keep(
        self, key: str, directory: Path, ended: Ended, before: Snapshot | None, alone: bool
    ) -> Tree:
        spec = self._spec
        names: Iterable[str] = ()
        lasting = True
        if spec.build_output:
            names = files_of(spec.workdir, spec.build_output)
        elif alone:
            changed = self._left_in_place(before)
            if changed is not None:
                names = changed
            else:  # it may have written anywhere: sure is only what it put into its own directory
                lasting = any(directory.iterdir())
            self._in_place = bool(names) or not lasting
            if not names and lasting and not any(directory.iterdir()):
                self._note(
                    "a build left nothing in $SKIPJACK_BUILD_DIR and nothing in the working "
                    "directory; where it writes elsewhere, builds overwrite each other unnoticed"
                )
        names = tuple(names)
        if self._in_place:
            self._lies_here = key
        size = sum(_size(spec.workdir / name) for name in names)
        if size > spec.quota_bytes:
            self._note(f"a build leaves {size >> 20} MiB in {spec.workdir}, more than may be kept")
            lasting = False
        if not lasting:
            self._passing = Tree(key, directory, ended.seconds, size)
            return self._passing
        pinned = [self._in_use, *self._ahead]
        return self._trees.finish(key, ended.seconds, names, spec.workdir, pinned)

    def _left_in_place(self, before: Snapshot | None) -> tuple[str, ...] | None:
        """What a build changed in the working directory; None: not known."""
        after = self._look() if before else None
        if before is None or after is None:
            return None
        names = after.changed_since(before)
        self._made |= {name: after.stamps[name][0] for name in names}
        # What was there before and is another file now can be had back from who kept it, alone.
        self._trees.drop_lacking([name for name in names if name in before.stamps])
        return names

    def _edited(self, tree: Tree) -> bool:
        """Whether putting this build back would undo what somebody wrote."""
        if self._lies_here == tree.key or self._spec.build_output:
            return False
        names = self._trees.edited(tree, self._spec.workdir, self._made)
        if names:
            log.info("%s was edited since it was built; building again", names[0])
        return bool(names)

    def _look(self) -> Snapshot | None:
        found = snapshot(self._spec.workdir, (self._spec.state_dir,))
        if found is None:
            self._note(
                f"{self._spec.workdir} holds more than {MOST_FILES} files, so it is not known what "
                "builds write there; say --build-output, or builds are not reused"
            )
        return found

    def _known_in_place(self) -> bool | None:
        """Whether earlier builds wrote into the working directory; None: not known."""
        return True if any(tree.files for tree in self._trees.trees) else None

    def _salt(self) -> str:
        """What all builds depend on."""
        spec = self._spec
        found = self._look()
        made = [name for tree in self._trees.trees for name in tree.files]
        made += [os.path.relpath(path, spec.workdir) for path in spec.not_sources]
        parts: dict[str, Any] = {
            "command": self._command.words,
            "base": spec.base,
            "nested": spec.nested,
            "workdir": str(spec.workdir),
            "environment": dict(spec.environment),
            "output": spec.build_output,
            # Without a look at the sources there is no telling whether they changed.
            "sources": sources_digest(found, made) if found else secrets.token_hex(),
        }
        text = json.dumps(parts, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)
            log.warning("%s", text)


def _seconds(built: Tree | Outcome) -> float:
    return built.seconds if isinstance(built, Tree) else built.build_seconds


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
