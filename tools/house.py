#!/usr/bin/env python3
"""How large parts of the source are, at a commit and now: the figures of docs/architecture.md.

    tools/house.py            a75410e and the files here
    tools/house.py COMMIT     that commit and the files here

Prints a table in Markdown. Lines are physical lines.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

BEFORE = "a75410e"
"""The commit that the rebuilding of the store began with."""
ROOT = Path(__file__).resolve().parent.parent
FLEET = "src/skipjack/fleet/"
STORE = f"{FLEET}store/"

Sources = Mapping[str, str]
"""Python files below `src`, by path."""

_DATABASE = re.compile(r"\b(sqlite|postgresql|postgres|psycopg|mysql|mariadb|pymysql)\b", re.I)
_PROTOCOL = re.compile(r"^class \w+\((?:\w+, )*Protocol\):", re.M)


def main() -> None:
    """Print the table."""
    commit = sys.argv[1] if len(sys.argv) > 1 else BEFORE
    before, now = _of_commit(commit), _of_here()
    print(f"| | {commit} | now |\n| --- | --- | --- |")
    for title, count in ROWS.items():
        print(f"| {title} | {count(before):,} | {count(now):,} |")


def _of_commit(commit: str) -> Sources:
    names = _git("ls-tree", "-r", "--name-only", commit, "src").splitlines()
    return {name: _git("show", f"{commit}:{name}") for name in names if name.endswith(".py")}


def _of_here() -> Sources:
    files = sorted((ROOT / "src").rglob("*.py"))
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in files}


def _git(*arguments: str) -> str:
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"git {arguments[0]}: {ran.stderr.strip()}")
    return ran.stdout


def _store(sources: Sources) -> Sources:
    """The fleet's store without its migrations, which only grow."""
    return {
        name: text
        for name, text in sources.items()
        if name.startswith(STORE) and "/migrations/" not in name
    }


def _lines(sources: Sources) -> int:
    return sum(text.count("\n") for text in sources.values())


def _count(pattern: re.Pattern[str], sources: Sources) -> int:
    return sum(len(pattern.findall(text)) for text in sources.values())


def _with(pattern: re.Pattern[str], sources: Sources) -> int:
    return sum(1 for text in sources.values() if pattern.search(text))


def _fleet(sources: Sources) -> Sources:
    return {name: text for name, text in sources.items() if name.startswith(FLEET)}


ROWS: Mapping[str, Callable[[Sources], int]] = {
    "files of the fleet's store": lambda sources: len(_store(sources)),
    "their lines": lambda sources: _lines(_store(sources)),
    "of these, files that name a database": lambda sources: _with(_DATABASE, _store(sources)),
    "protocols of the fleet": lambda sources: _count(_PROTOCOL, _fleet(sources)),
    "files of the source": len,
    "lines of the source": _lines,
}


if __name__ == "__main__":
    main()
