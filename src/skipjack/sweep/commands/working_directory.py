"""The working directory of builds that write into it: what they leave, and having it back later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from skipjack.storage import write_failure
from skipjack.sweep.commands import in_place
from skipjack.sweep.commands.appending import Appending
from skipjack.sweep.commands.build_trees import BuildTrees, Left, Tree
from skipjack.sweep.commands.in_place import Snapshot, changed, files_of, snapshot, stamps_of


@dataclass(frozen=True, slots=True)
class Before:
    """The working directory before a build."""

    files: Snapshot | None
    """None: there are too many."""
    appending: Appending


class WorkingDirectory:
    """Whose files lie there. What somebody else wrote is never overwritten and never removed."""

    def __init__(
        self,
        directory: Path,
        outputs: Sequence[str | Path],
        skip: Sequence[Path],
        trees: BuildTrees,
        note: Callable[[str], None],
    ) -> None:
        self._directory, self._outputs, self._skip = directory, outputs, skip
        self._trees, self._note = trees, note
        self._made: dict[str, tuple[int, int]] = {}
        """Time and size of files as builds of this sitting left them."""
        self._logs: set[str] = set()
        self.lies_here = ""
        """Key of the build whose files lie there, as far as it is known."""

    def before_build(self) -> Before:
        """Look at it; the files there are no build's from now on."""
        self.lies_here = self._trees.standing = ""
        listed = {name for tree in self._trees.trees for name in tree.left.files}
        # In this order: room for appending changes a time of the files that get it.
        appending = Appending(self._directory, listed)
        return Before(self._look(), appending)

    def after_build(self, before: Before) -> Left | None:
        """What the build left; None: not known."""
        after = self._look() if before.files is not None else None
        self._logs |= set(logs := before.appending.appended())
        if before.files is None or after is None:
            return None
        own = changed(before.files, after)
        if not self._outputs:
            own = self._products(own, before.files)
        self._remember(after, own)
        if not self._outputs:
            # What was there before and is another file now can be had back from who kept it, alone.
            gone = [name for name in own if name in before.files and name not in self._logs]
            self._trees.drop_lacking(gone)
        elif not any(tree.left.files for tree in self._trees.trees):
            return Left(tuple(after), own, logs)  # the first has all that is there
        return Left(tuple(dict.fromkeys((*own, *self._taken_over(after)))), own, logs)

    def _products(self, written: Sequence[str], before: Snapshot) -> tuple[str, ...]:
        """What the build wrote: where builds wrote before, or into a directory that is new.

        Other files that changed meanwhile are somebody else's. The first build shows where.
        """
        known = [name for tree in self._trees.trees for name in tree.left.own]
        if not known:
            return tuple(written)
        places = {parent for name in known if (parent := name.rpartition("/")[0])}
        kinds = {PurePath(name).suffix for name in known if "/" not in name}
        there = {parent for name in before for parent in map(str, PurePath(name).parents)}

        def is_product(name: str) -> bool:
            parents = [str(parent) for parent in PurePath(name).parents if parent.name]
            if not parents:
                return PurePath(name).suffix in kinds
            return any(parent in places or parent not in there for parent in parents)

        return tuple(name for name in written if is_product(name))

    def stands(self, key: str) -> None:
        """The files of this build lie there now."""
        self.lies_here = self._trees.standing = key

    def may_return(self, tree: Tree) -> bool:
        """Whether putting this build back undoes nothing that somebody wrote."""
        if self.lies_here == tree.key:
            return True
        for name in self._replaced(tree):
            path = self._directory / name
            if (path.is_symlink() or path.exists()) and not self._is_ours(name):
                self._note(
                    f"{name} was changed after builds wrote it, so they are made again rather than "
                    "put back; have runs and people write elsewhere if builds are to be reused"
                )
                return False
        return True

    def put_back(self, tree: Tree) -> None:
        """Have the directory as this build left it; `may_return` was asked before."""
        if self.lies_here == tree.key:
            return
        names = self._replaced(tree)
        try:
            self._remove_others(tree)
            in_place.put_back(names, self._trees.kept_files(tree), self._directory)
        except OSError as error:
            raise write_failure(Path(error.filename or self._directory), error) from error
        self._remember(stamps_of(self._directory, names), names)
        self.stands(tree.key)

    def _look(self) -> Snapshot | None:
        if self._outputs:
            return stamps_of(self._directory, files_of(self._directory, self._outputs))
        found = snapshot(self._directory, self._skip)
        if found is None:
            self._note(
                f"{self._directory} holds more than {in_place.MOST_FILES} files, so it is not "
                "known what builds write there; say --build-output, or builds are not reused"
            )
        return found

    def _taken_over(self, after: Snapshot) -> list[str]:
        """What other builds left and this one let stand: it may need it."""
        listed = {name for tree in self._trees.trees for name in tree.left.files}
        found = (name for name in after if name in listed and name not in self._logs)
        return [name for name in found if self._is_ours(name)]

    def _remember(self, found: Snapshot, names: Sequence[str]) -> None:
        for name in names:
            if (stamp := found.get(name)) is not None:
                self._made[name] = (stamp[0], stamp[2])

    def _replaced(self, tree: Tree) -> list[str]:
        """Files to have back: all but logs, and but those that grew where this build stood."""
        logs = self._logs.union(*(one.left.logs for one in self._trees.trees))
        stood = self._trees.standing == tree.key
        kept = self._trees.kept_files(tree)
        return [
            name
            for name in tree.left.files
            if name not in logs
            and not (stood and in_place.has_grown(self._directory / name, kept / name))
        ]

    def _is_ours(self, name: str) -> bool:
        """Whether a file is as some build left it."""
        path = self._directory / name
        with contextlib.suppress(OSError):
            status = path.lstat()
            if self._made.get(name) == (status.st_mtime_ns, status.st_size):
                return True
        return any(
            in_place.is_copy(path, self._trees.kept_files(one) / name) for one in self._trees.trees
        )

    def _remove_others(self, tree: Tree) -> None:
        """Remove what other builds wrote and was not there when this one was made."""
        theirs = {name for one in self._trees.trees for name in one.left.own}
        for name in theirs.difference(tree.left.files, self._logs):
            if self._is_ours(name):
                with contextlib.suppress(FileNotFoundError):
                    (self._directory / name).unlink()
