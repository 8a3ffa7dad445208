"""How ``skipjack exec`` starts a program: its environment, its Python, and the step itself."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import NoReturn

from skipjack.autoload import HOOK_VARIABLE
from skipjack.errors import MalformedError, SkipjackError, UsageError
from skipjack.integrations.mindspore import (
    AutoTuneVariables,
    mode_policy,
    read_variables,
    searchers_of,
)
from skipjack.integrations.torch import operation_names
from skipjack.integrations.torch.stubs import why_unknown
from skipjack.reading import read_json
from skipjack.runtime.dumps import dump_folder
from skipjack.runtime.process import make_policy, policy_variables
from skipjack.settings import FIND_ENFORCE, TORCH_OPS, TORCH_STARTED, TUNE_DUMP_PATH, TUNE_RESULT

# Which Python a command runs, and whether it has what the PyTorch hook needs.

OLDEST_TORCH = (2, 10)
_PYTHON = re.compile(r"python[0-9.]*t?$")
_COPIED_FLAGS = re.compile(r"-[EIPSs]+$")
"""Options of Python that change which packages it finds."""
_PROGRAM = re.compile("-[cm]?$")
"""Options after which all arguments are the program's."""
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
    """The packages of a Python."""

    python: str
    skipjack: str | None
    """Its version; None if it is not installed, empty if the version is unknown."""
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
                f"Skipjack {self.skipjack} of the command's Python ({self.python}) is not "
                f"registered with PyTorch; install it again ({install} --force-reinstall skipjack)"
            )
        return ""

    @property
    def torch_lack(self) -> str:
        """Why its PyTorch runs untuned; empty if it is new enough or of unknown version."""
        oldest = ".".join(map(str, OLDEST_TORCH))
        if self.torch is None:
            return f"the Python of this command ({self.python}) has no PyTorch: nothing is tuned"
        found = re.match(r"(\d+)\.(\d+)", self.torch)
        if found and tuple(map(int, found.groups())) < OLDEST_TORCH:
            return (
                f"PyTorch {self.torch} is too old to be tuned and runs as it is; "
                f"Skipjack needs {oldest} or later"
            )
        return ""


def python_of(program: Path, rest: Sequence[str], path: str | None = None) -> list[str] | None:
    """The Python that runs a program, with the options that affect its packages; None if unknown.

    `path` lists the folders to search for programs, as in ``PATH``.
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
    """That Python's packages, found without importing them; None if it gives no answer."""
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


# How a program is started with tuned kernels: its environment, its Python, and the start itself.
#
# This process becomes the program, so that signals, exit status, standard streams and children are
# the program's own. Environment variables pass the request on to it and to its children.

AUTOLOAD_VARIABLE = "TORCH_DEVICE_BACKEND_AUTOLOAD"
NOT_FOUND, NOT_RUNNABLE = 127, 126
"""Exit codes of shells."""
_OPTIONS = {name: f"--{name}" for name in ("seconds", "background", "regret")} | {
    "mode": "--policy"
}


class CommandError(SkipjackError):
    """The command cannot be run."""

    def __init__(self, sentence: str, exit_code: int = NOT_FOUND) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class ProgramRequest:
    """What the program may do, as given on the command line."""

    policy: str | None = None
    seconds: float | None = None
    background: bool = False
    regret: str | None = None
    ops: str | None = None
    mode: str | None = None
    """AutoTune's name for what is tuned, and by which search."""
    result: bool = False
    """Whether to write a result file in any case."""


def launch(command: list[str], request: ProgramRequest) -> NoReturn:
    """Replace this process by the program."""
    theirs = read_variables(os.environ)
    variables = _variables(request, theirs)
    program = _found(command[0])
    for sentence in theirs.complaints:
        print(f"skipjack: {sentence}", file=sys.stderr)
    usable = {name: text for name, text in os.environ.items() if name not in theirs.unusable}
    environment = {**usable, **variables}
    if not _has_hook(program, command[1:], environment):
        environment.pop(HOOK_VARIABLE)
    _become(program, command, environment)


def _variables(request: ProgramRequest, theirs: AutoTuneVariables) -> dict[str, str]:
    """The variables for the program, from options and then from AutoTune's variables."""
    searchers = None if request.mode is None else searchers_of(request.mode)
    usual = (FIND_ENFORCE.text() or None) if searchers is None else mode_policy(searchers)
    names = _OPTIONS if request.policy else _OPTIONS | {"mode": FIND_ENFORCE.name}
    found = theirs.variables | policy_variables(
        theirs.policy(request.policy or usual),
        seconds=request.seconds,
        background=request.background,
        regret=request.regret,
        searchers=searchers or None,
        names=names,
    )
    if searchers is not None and request.policy:
        _check_agreement(request.mode, bool(searchers), request.policy)
    _say_what_has_no_effect(request, found.get(FIND_ENFORCE.name))
    if request.ops is not None:
        unknown = map(why_unknown, operation_names(request.ops) or ())
        if sentence := next(filter(None, unknown), ""):
            raise UsageError(f"--ops: {sentence}")
        found[TORCH_OPS.name] = request.ops
    if request.result:
        found[TUNE_RESULT.name] = "1"
    if folder := dump_folder():
        found[TUNE_DUMP_PATH.name] = str(
            folder
        )  # absolute: the program and its children may change directory
    return found | {
        HOOK_VARIABLE: "1",
        AUTOLOAD_VARIABLE: "1",
        # This process becomes the program: a process with another id is one of its children.
        TORCH_STARTED.name: f"{os.getpid()}:{time.monotonic():.3f}",
    }


def _say_what_has_no_effect(request: ProgramRequest, policy: str | None) -> None:
    """Report search options that have no effect, as the policy searches nothing."""
    given = {"--seconds": request.seconds, "--background": request.background}
    named = [name for name, value in (given | {"--regret": request.regret}).items() if value]
    if named and not make_policy(policy or "db").measures:
        verb = "has" if len(named) == 1 else "have"
        why = f"the policy {policy or 'db'} searches nothing; add --policy incremental"
        print(f"skipjack: {' and '.join(named)} {verb} no effect: {why}", file=sys.stderr)


def _check_agreement(mode: str | None, tunes: bool, policy: str) -> None:
    """`UsageError` if a mode and a policy contradict each other."""
    if tunes == make_policy(policy).measures:
        return
    does, does_not = ("tunes", "does not") if tunes else ("does not tune", "does")
    raise UsageError(
        f"--mode {mode} {does}, and --policy {policy} {does_not}; leave one of them out"
    )


def _found(program: str) -> Path:
    if not program:
        raise UsageError("the command is empty; write it after --, as: -- python train.py")
    found = shutil.which(program)
    if found is not None:
        return Path(found)
    path = Path(program)
    if "/" in program and path.is_dir():
        raise CommandError(f"{program} is a directory, not a program", NOT_RUNNABLE)
    if "/" in program and path.exists():
        raise CommandError(
            f"{program} is not executable; write python {program}, or chmod +x it", NOT_RUNNABLE
        )
    where = "" if "/" in program else " on PATH"
    raise CommandError(f"there is no program {program}{where}")


def _has_hook(program: Path, rest: list[str], environment: dict[str, str]) -> bool:
    """Whether the program can be hooked, as far as is known; prints why not.

    `SkipjackError` if the program's Python lacks Skipjack.
    """
    python = python_of(program, rest)
    packages = packages_of(python, environment) if python else None
    if packages is None:
        return True  # a shell script, or a program that starts Python somewhere
    if packages.lack:
        raise SkipjackError(f"{packages.lack}; nothing was run")
    if packages.torch_lack:
        print(f"skipjack: {packages.torch_lack}", file=sys.stderr)
    return not packages.torch_lack


def _become(program: Path, command: list[str], environment: dict[str, str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Python ignores these signals, and the new program would inherit that.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise CommandError(
            f"{program} cannot be run: {error.strerror or error}", NOT_RUNNABLE
        ) from None
