"""Which Python a command runs, and whether that one has what the hook under PyTorch needs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from skipjack.errors import MalformedError
from skipjack.reading import read_json

OLDEST_TORCH = (2, 10)
_PYTHON = re.compile(r"python[0-9.]*t?$")
_COPIED_FLAGS = re.compile(r"-[EIPSs]+$")
"""Options of Python that change which packages it finds."""
_PROGRAM = re.compile("-[cm]?$")
"""Options after which the rest is the program's."""
_PATIENCE_S = 60.0
_PIP_SHEBANG = "'''exec' "
"""How pip begins the second line of a script whose Python has a long path or one with spaces."""
_PROBE = """\
import json, sys
from importlib import metadata, util
if sys.path and sys.path[0] == "":
    del sys.path[0]
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "" if util.find_spec(name) else None
points = metadata.entry_points(group="torch.backends")
print(json.dumps({
    "python": sys.executable,
    "skipjack": version("skipjack"),
    "torch": version("torch"),
    "has_entry": any(one.value.startswith("skipjack.") for one in points),
}))
"""


@dataclass(frozen=True, slots=True)
class PythonPackages:
    """What a Python says of itself."""

    python: str
    skipjack: str | None
    """Its version; None if it is not installed, empty if that is all that is known."""
    torch: str | None
    has_entry: bool
    """Whether PyTorch would find the entry point that enables the hook."""

    @property
    def lack(self) -> str:
        """Why Skipjack cannot be used there, and what to do; empty if it can."""
        install = f"{shlex.quote(self.python)} -m pip install"
        if self.skipjack is None and not self.has_entry:
            return (
                f"the Python of this command ({self.python}) has no Skipjack; install it there "
                f"({install} skipjack), or leave out skipjack exec"
            )
        if not self.has_entry:
            return (
                f"Skipjack {self.skipjack} of the command's Python ({self.python}) does not tell "
                f"PyTorch of itself; install it again ({install} --force-reinstall skipjack)"
            )
        return ""

    @property
    def torch_lack(self) -> str:
        """Why its PyTorch runs as it is; empty if it is new enough or says no version."""
        oldest = ".".join(map(str, OLDEST_TORCH))
        if self.torch is None:
            return f"the Python of this command ({self.python}) has no PyTorch: nothing is tuned"
        found = re.match(r"(\d+)\.(\d+)", self.torch)
        if found and tuple(map(int, found.groups())) < OLDEST_TORCH:
            return (
                f"PyTorch {self.torch} is too old to be tuned, and runs as it is: "
                f"Skipjack needs {oldest} or later"
            )
        return ""


def python_of(program: Path, rest: Sequence[str], path: str | None = None) -> list[str] | None:
    """The Python that runs a program, with those of its options that count; None if none is known.

    `path` is where programs are looked for, as in ``PATH``.
    """
    if _PYTHON.match(program.name):
        return [str(program), *_flags(rest)]
    words = _shebang(program)
    if words and Path(words[0]).name == "env":
        words = list(dropwhile(lambda word: word.startswith("-") or "=" in word, words[1:]))
        found = shutil.which(words[0], path=path) if words else None
        words = [found, *words[1:]] if found else []
    if not words or not _PYTHON.match(Path(words[0]).name):
        return None
    return [words[0], *_flags(words[1:])]


def packages_of(python: Sequence[str], environment: Mapping[str, str]) -> PythonPackages | None:
    """What that Python has, without importing any of it; None if it does not say."""
    try:
        done = subprocess.run(
            [*python, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=environment,
            timeout=_PATIENCE_S,
        )
        return read_json(done.stdout.splitlines()[-1]).of(PythonPackages)
    except (OSError, subprocess.SubprocessError, UnicodeError, MalformedError, IndexError):
        return None


def _flags(words: Sequence[str]) -> list[str]:
    found = []
    for word in words:
        if not word.startswith("-") or _PROGRAM.match(word):
            break
        if _COPIED_FLAGS.match(word):
            found.append(word)
    return found


def _shebang(program: Path) -> list[str]:
    try:
        with program.open("rb") as file:
            lines = file.read(4096).decode(errors="replace").splitlines()
    except OSError:
        return []
    if not lines or not lines[0].startswith("#!"):
        return []
    try:
        if len(lines) > 1 and lines[1].startswith(_PIP_SHEBANG):
            return shlex.split(lines[1].removeprefix(_PIP_SHEBANG))[:1]
        return shlex.split(lines[0][2:])
    except ValueError:
        return []
