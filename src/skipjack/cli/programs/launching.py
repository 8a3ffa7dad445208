"""How a program is started with tuned kernels: its environment, its Python, and the step itself.

This process becomes the program, so that signals, exit status, standard streams and children are
the program's own. Environment variables carry what was asked for to it and to its children.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from skipjack.autoload import HOOK_VARIABLE
from skipjack.cli.programs.python_of import packages_of, python_of
from skipjack.errors import SkipjackError, UsageError
from skipjack.integrations.mindspore import (
    AutoTuneVariables,
    mode_policy,
    read_variables,
    searchers_of,
)
from skipjack.integrations.torch import operations, why_unknown
from skipjack.runtime import make_policy, policy_variables
from skipjack.runtime.dumps import dump_folder
from skipjack.settings import FIND_ENFORCE, TORCH_OPS, TORCH_STARTED, TUNE_DUMP_PATH, TUNE_RESULT

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
    """What the program may do, as the command line says it."""

    policy: str | None = None
    seconds: float | None = None
    background: bool = False
    regret: str | None = None
    ops: str | None = None
    mode: str | None = None
    """AutoTune's word for what is tuned, and by whom."""
    result: bool = False
    """Whether a result file is wanted in any case."""


def launch(command: list[str], request: ProgramRequest) -> NoReturn:
    """Become the program."""
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
    """What was asked for by options, then by AutoTune's variables."""
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
        unknown = map(why_unknown, operations(request.ops) or ())
        if sentence := next(filter(None, unknown), ""):
            raise UsageError(f"--ops: {sentence}")
        found[TORCH_OPS.name] = request.ops
    if request.result:
        found[TUNE_RESULT.name] = "1"
    if folder := dump_folder():
        found[TUNE_DUMP_PATH.name] = str(folder)  # wherever the program and its children go
    return found | {
        HOOK_VARIABLE: "1",
        AUTOLOAD_VARIABLE: "1",
        # This process becomes the program: whoever has its id is not a child.
        TORCH_STARTED.name: f"{os.getpid()}:{time.monotonic():.3f}",
    }


def _say_what_has_no_effect(request: ProgramRequest, policy: str | None) -> None:
    """Options of searches where nothing is searched."""
    given = {"--seconds": request.seconds, "--background": request.background}
    named = [name for name, value in (given | {"--regret": request.regret}).items() if value]
    if named and not make_policy(policy or "db").measures:
        verb = "has" if len(named) == 1 else "have"
        why = f"the policy {policy or 'db'} searches nothing; add --policy incremental"
        print(f"skipjack: {' and '.join(named)} {verb} no effect: {why}", file=sys.stderr)


def _check_agreement(mode: str | None, tunes: bool, policy: str) -> None:
    """`UsageError` where a mode and a policy contradict each other."""
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
            f"{program} may not be executed; write python {program}, or chmod +x it", NOT_RUNNABLE
        )
    where = "" if "/" in program else " on PATH"
    raise CommandError(f"there is no program {program}{where}")


def _has_hook(program: Path, rest: list[str], environment: dict[str, str]) -> bool:
    """Whether the program can be hooked, as far as that is known; what speaks against it is said.

    Where Skipjack is missing, `SkipjackError`.
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
    # Python ignores these, and what is ignored stays so.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    try:
        os.execve(program, command, environment)
    except OSError as error:
        raise CommandError(
            f"{program} cannot be run: {error.strerror or error}", NOT_RUNNABLE
        ) from None
