#!/usr/bin/env python3
"""How the source is laid out, at a commit and now: the figures of docs/architecture.md.

    tools/house.py            a75410e and the files here
    tools/house.py COMMIT     that commit and the files here

Prints a table in Markdown. Lines are physical lines; a folder is one with Python files below
`src/skipjack`. The last row tunes a small problem with the code of each side, so it needs the
packages that Skipjack needs.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

BEFORE = "a75410e"
"""The commit that the renovation of the layout began with."""
ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/skipjack/"
HOUSES = ("fleet/store",)
"""Folders whose `__init__` is the API of their sub-folders too."""

_PROTOCOL = re.compile(r"^class \w+\((?:\w+, )*Protocol\):", re.M)

_LOOKUP = """
import sys, skipjack
assert skipjack.lookup("matmul:64x64x64") is not None
print(sum(name.split(".")[0] == "skipjack" for name in sys.modules))
"""


class House:
    """The Python files below `src/skipjack` at a commit, or here."""

    def __init__(self, commit: str = "") -> None:
        self.commit = commit
        self.files = dict(self._of_commit() if commit else self._of_here())
        """By path below `src/skipjack`."""
        self.trees = {path: ast.parse(text) for path, text in self.files.items()}
        self.folders = {folder_of(path) for path in self.files}

    def _of_commit(self) -> Iterator[tuple[str, str]]:
        names = git("ls-tree", "-r", "--name-only", self.commit, "src/skipjack").splitlines()
        for name in names:
            if name.endswith(".py"):
                yield name.removeprefix(PACKAGE), git("show", f"{self.commit}:{name}")

    def _of_here(self) -> Iterator[tuple[str, str]]:
        package = ROOT / PACKAGE
        for path in sorted(package.rglob("*.py")):
            yield str(path.relative_to(package)), path.read_text("utf-8")

    def module(self, dotted: str) -> tuple[str, str]:
        """The folder of an import, and the module in it; none where it is of the `__init__`."""
        parts = dotted.split(".")[1:]
        deepest = max(at for at in range(len(parts) + 1) if "/".join(parts[:at]) in self.folders)
        folder, rest = "/".join(parts[:deepest]), parts[deepest:]
        is_module = bool(rest) and self._path(folder, rest[0]) in self.files
        return folder, rest[0] if is_module else ""

    def _path(self, folder: str, module: str) -> str:
        return f"{folder}/{module}.py" if folder else f"{module}.py"

    @cache  # noqa: B019  (two houses in a run)
    def imports(self) -> list[tuple[str, str, str, bool]]:
        """Our imports: of which file, from which folder and module, and whether at its top."""
        found = []
        for path, tree in self.trees.items():
            top = {id(node) for node in tree.body}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    names = [f"{node.module}.{alias.name}" for alias in node.names]
                else:
                    continue
                for name in names:
                    if name.split(".")[0] == "skipjack":
                        found.append((path, *self.module(name), id(node) in top))
        return found


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def git(*arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"git {arguments[0]}: {ran.stderr.strip()}")
    return ran.stdout


def largest_file(house: House) -> int:
    return max(text.count("\n") for text in house.files.values())


def short_files(house: House) -> int:
    return sum(
        text.count("\n") < 60
        for path, text in house.files.items()
        if not path.endswith("__init__.py")
    )


def largest_folder(house: House) -> int:
    return max(Counter(map(folder_of, house.files)).values())


def longest_chain(house: House) -> int:
    """Modules in the longest chain of imports, at the top of files, inside of one folder."""
    below: dict[str, set[str]] = defaultdict(set)
    for path, folder, module, is_top in house.imports():
        if is_top and module and folder_of(path) == folder:
            below[path].add(f"{folder}/{module}.py" if folder else f"{module}.py")
    depths: dict[str, int] = {}

    def depth(path: str, seen: frozenset[str]) -> int:
        if path in seen:
            return 0
        if path not in depths:
            deepest = [depth(other, seen | {path}) for other in below[path]]
            depths[path] = 1 + max(deepest, default=0)
        return depths[path]

    return max(depth(path, frozenset()) for path in list(house.files))


def repeated_class_names(house: House) -> int:
    """Names of public classes that are defined in two folders or more."""
    found: dict[str, set[str]] = defaultdict(set)
    for path, tree in house.trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(folder_of(path))
    return sum(len(folders) > 1 for folders in found.values())


def through_apis(house: House) -> str:
    """Imports from folders that a file is not in: the share that names the folder alone."""
    through = past = 0
    for path, folder, module, _ in house.imports():
        for one in HOUSES:
            if folder.startswith(f"{one}/"):
                folder, module = one, f"{folder}/{module}"
        if not folder or f"{folder_of(path)}/".startswith(f"{folder}/"):
            continue
        if module:
            past += 1
        else:
            through += 1
    return f"{through / (through + past):.0%}"


def loaded_by_lookup(house: House) -> int:
    """Modules of ours in a program that looks up a problem which its bank knows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if house.commit:
            archive = subprocess.Popen(
                ["git", "archive", house.commit, "src"], cwd=ROOT, stdout=subprocess.PIPE
            )
            subprocess.run(["tar", "-x", "-C", name], stdin=archive.stdout, check=True)
            archive.wait()
        source = folder / "src" if house.commit else ROOT / "src"
        environment = {
            **os.environ,
            "PYTHONPATH": str(source),
            "SKIPJACK_USER_DB_PATH": str(folder / "user"),
            "SKIPJACK_SYSTEM_DB_PATH": str(folder / "user"),
        }
        tune = ["-m", "skipjack", "tune", "matmul:64x64x64", "--seconds", "1"]
        for words in (tune, ["-c", _LOOKUP]):
            done = subprocess.run(
                [sys.executable, *words],
                cwd=name,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                sys.exit(f"{house.commit or 'here'}: {' '.join(words[:3])}: {done.stderr.strip()}")
        return int(done.stdout.split()[-1])


ROWS: Mapping[str, Callable[[House], int | str]] = {
    "files": lambda house: len(house.files),
    "lines": lambda house: sum(text.count("\n") for text in house.files.values()),
    "lines per file": lambda house: round(
        sum(text.count("\n") for text in house.files.values()) / len(house.files)
    ),
    "lines of the largest file": largest_file,
    "files under 60 lines, without `__init__`": short_files,
    "folders": lambda house: len(house.folders),
    "files in the largest folder": largest_folder,
    "longest import chain inside a folder": longest_chain,
    "class names in two folders or more": repeated_class_names,
    "imports between folders that go through an API": through_apis,
    "protocols of the fleet": lambda house: sum(
        len(_PROTOCOL.findall(text))
        for path, text in house.files.items()
        if path.startswith("fleet/")
    ),
    "modules that a hit of `lookup` loads": loaded_by_lookup,
}


def main() -> None:
    """Print the table."""
    commit = sys.argv[1] if len(sys.argv) > 1 else BEFORE
    before, now = House(commit), House()
    print(f"| | {commit} | now |\n| --- | --- | --- |")
    for title, measure in ROWS.items():
        cells = [
            f"{value:,}" if isinstance(value, int) else value
            for value in (measure(before), measure(now))
        ]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
