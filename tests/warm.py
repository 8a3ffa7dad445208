"""The ``skipjack`` command in forks of a process that has loaded its modules.

Loading numpy, llvmlite and SQLAlchemy takes a command 0.2 to 0.5 s of CPU time, a fork 10 ms. What
runs in a fork has its own process all the same: arguments, environment, directory, standard
streams, exit code and children. Where a caller changes what a process reads as it starts, as the
variables of `warm_client.SETTLED`, `Warm.run` starts one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from warm_client import NUMBER, ask, read, settled

COMMAND = "skipjack.cli.main"
LOADED = (
    "skipjack.cli.main",
    "skipjack.report.fleet.runs",
    "skipjack.fleet.engines.local",
    "skipjack.solvers.cpu.conv.implicit_gemm.solver",
    "skipjack.fleet.release.formats.miopen_format",
    "skipjack.learn.policy.searcher",
    "llvmlite.binding",
    "skipjack.integrations.triton.user_solver",
    "skipjack.solvers.cpu.conv.winograd.solver",
    "skipjack.solvers.cpu.rows.solver",
    "sqlalchemy.dialects.sqlite",
    "skipjack.solvers.cpu.conv.direct.solver",
    "skipjack.solvers.cpu.conv.explicit_gemm.im2col",
)
"""What most commands load, directly or not."""
_SHIM = """#!{python} -IS
import os, sys
sys.path.insert(0, {tests!r})
from warm_client import ask, settled
words = ["-m", "skipjack.cli.main", *sys.argv[1:]]
if settled(os.environ) != {settled!r}:
    os.execv({python!r}, [{python!r}, *words])
code = ask({address!r}, words, os.environ, os.getcwd(), (0, 1, 2))
sys.exit(128 - code if code < 0 else code)
"""


class Warm:
    """The process that forks; it starts with the first command and ends with `stop`."""

    def __init__(self, directory: Path) -> None:
        self.address = directory / "requests"
        self.bin = directory / "bin"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process unless it runs; `bin` then has a ``skipjack`` that asks it."""
        if self._process is not None:
            return
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self.address))
            listener.listen(64)
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(listener.fileno())],
                pass_fds=[listener.fileno()],
                stdin=subprocess.PIPE,
            )
        self.bin.mkdir()
        shim = self.bin / "skipjack"
        shim.write_text(
            _SHIM.format(
                python=sys.executable,
                tests=str(Path(__file__).parent),
                settled=settled(os.environ),
                address=str(self.address),
            )
        )
        shim.chmod(0o755)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None
            shutil.rmtree(self.bin)

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float,
        input: str | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        **options: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m skipjack.cli.main ...`` or ``python -c ...`` as `subprocess.run` does.

        Standard input is empty unless given. Any other option needs a process that is started.
        """
        environment = dict(os.environ if env is None else env)
        if options or settled(environment) != settled(os.environ):
            given = {"input": "" if input is None else input} if "stdin" not in options else {}
            return subprocess.run(
                command,
                timeout=timeout,
                cwd=cwd,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                **given,
                **options,
            )
        self.start()
        with contextlib.ExitStack() as files:
            given, out, err = (files.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            given.write((input or "").encode())
            given.seek(0)
            streams = given.fileno(), out.fileno(), err.fileno()
            where = str(Path.cwd() if cwd is None else cwd)
            code = ask(str(self.address), list(command[1:]), environment, where, streams, timeout)
            if code is None:
                raise subprocess.TimeoutExpired(list(command), timeout)
            out.seek(0)
            err.seek(0)
            said, complained = (
                file.read().decode().replace("\r\n", "\n").replace("\r", "\n")
                for file in (out, err)
            )
            return subprocess.CompletedProcess(list(command), code, said, complained)


@dataclass(frozen=True)
class _Request:
    """What a fork is to run, and where; `streams` are descriptors of this process."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str
    streams: list[int]


def _accept(listener: socket.socket) -> tuple[socket.socket, _Request]:
    connection, _ = listener.accept()
    size, streams, _, _ = socket.recv_fds(connection, NUMBER, 3)
    text = read(connection, int.from_bytes(size, "big"))
    return connection, _Request(*json.loads(text), streams)


def _serve(listener: socket.socket) -> _Request:
    """Fork for each request, and end with standard input; returns in each fork."""
    running: dict[int, tuple[int, socket.socket]] = {}
    events = selectors.DefaultSelector()
    events.register(listener, selectors.EVENT_READ)
    events.register(0, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj == 0:
                os._exit(0)
            elif key.fileobj is listener:
                connection, request = _accept(listener)
                pid = os.fork()
                if pid == 0:
                    for handle in (events, listener, connection):
                        handle.close()
                    for end, (_, other) in running.items():
                        os.close(end)
                        other.close()
                    return request
                for stream in request.streams:
                    os.close(stream)
                end = os.pidfd_open(pid)
                events.register(end, selectors.EVENT_READ)
                running[end] = pid, connection
                _tell(connection, pid)
            else:
                events.unregister(key.fd)
                os.close(key.fd)
                pid, connection = running.pop(key.fd)
                _tell(connection, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                connection.close()


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the caller may have ended
        connection.sendall(number.to_bytes(NUMBER, "big", signed=True))


def _settle_in(request: _Request) -> None:
    """Take over what a process is started with."""
    for number, given in enumerate(request.streams):
        os.dup2(given, number)
        os.close(given)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.directory)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main(listening: int) -> None:
    """Load what commands need, then fork one for each request; the fork runs it and ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in LOADED:
        importlib.import_module(name)
    tempfile.tempdir = None
    gc.collect()
    gc.freeze()
    request = _serve(socket.socket(fileno=listening))
    _settle_in(request)
    how, what, *rest = request.arguments
    if (how, what) == ("-m", COMMAND):
        module = sys.modules[COMMAND]
        sys.path[0] = request.directory
        sys.argv = [str(module.__file__), *rest]
        module.run()
    assert how == "-c", f"python {how} {what} is not for a fork"
    sys.path[0] = ""
    sys.argv = ["-c", *rest]
    sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(what, "<string>", "exec"), sys.modules["__main__"].__dict__)


if __name__ == "__main__":
    main(int(sys.argv[1]))
