"""A command in a fork of a running process behaves like one in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes import PATIENCE_S, command
from warm import Warm

SAYS = "import os, sys; print(sys.argv, os.getcwd(), os.environ['WORD'], sys.stdin.read())"
PROGRAMS = {
    "what it was given": SAYS,
    "an exit code": "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)",
    "a sentence": "raise SystemExit('no')",
    "an exception": "raise ValueError('wrong')",
    "a signal": "import os; os.kill(os.getpid(), 9)",
    "what runs at the end": "import atexit; atexit.register(print, 'end')",
    "a temporary directory": "import tempfile; print(tempfile.gettempdir())",
    "a child": "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1)'])",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_fork_does_what_a_process_does(program: str, warm: Warm, tmp_path: Path) -> None:
    words = [sys.executable, "-c", program, "a", "b c"]
    environment = {**os.environ, "WORD": "ü", "TMPDIR": str(tmp_path)}
    forked, started = (
        run(words, input="told\n", cwd=tmp_path, env=environment, timeout=PATIENCE_S, **options)
        for run, options in (
            (warm.run, {}),
            (subprocess.run, {"capture_output": True, "text": True}),
        )
    )
    assert (forked.returncode, forked.stdout) == (started.returncode, started.stdout)
    assert forked.stderr.splitlines()[-1:] == started.stderr.splitlines()[-1:]


def test_what_is_read_as_a_process_starts_needs_one_that_starts(warm: Warm) -> None:
    def parent(**changed: str) -> int:
        words = [sys.executable, "-c", "import os; print(os.getppid())"]
        return int(warm.run(words, env={**os.environ, **changed}, timeout=PATIENCE_S).stdout)

    assert parent() != os.getpid()
    assert parent(PYTHONUTF8="0") == os.getpid()


def test_a_program_that_takes_too_long_is_killed(warm: Warm) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        warm.run([sys.executable, "-c", "import time; time.sleep(1000)"], timeout=0.1)


def test_the_command_has_its_name_in_sentences(warm: Warm) -> None:
    forked = warm.run(command(["solve"]), timeout=PATIENCE_S)
    assert forked.returncode == 2
    assert forked.stderr.startswith("skipjack: no such command 'solve'")


def test_a_shell_finds_a_command_that_asks_for_a_fork(warm: Warm) -> None:
    warm.start()
    script = "skipjack --version | tr a-z A-Z; skipjack solve || echo $?"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, "PATH": f"{warm.bin}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    version, code = done.stdout.splitlines()
    assert version.startswith("SKIPJACK ") and code == "2"
