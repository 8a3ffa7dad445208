"""Kernel Tuner's stored results as a peer: an environment and a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from metaschedule import CACHE

_SCRIPT = Path(__file__).resolve().parent / "peers" / "kernel_tuner_results.py"


class KernelTunerPeer:
    """Use it as a context; `absent` says why it is not there, if it is not."""

    def __init__(self, folder: Path = CACHE / "kernel-tuner-env") -> None:
        self._folder, self._stack = folder, ExitStack()
        self._process: subprocess.Popen[str] | None = None
        self.absent, self.version = "", ""

    def __enter__(self) -> KernelTunerPeer:
        python = self._folder / "bin" / "python"
        try:
            _install(python)
        except (OSError, subprocess.CalledProcessError):
            self.absent = "pip could not install it"
            return self
        files = self._stack.enter_context(tempfile.TemporaryDirectory())
        self._process = self._stack.enter_context(
            subprocess.Popen(
                [python, _SCRIPT, files], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        self.version = str(self._answer())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def seconds(self, what: str, *arguments: int) -> float:
        """What it took to do something; see the script."""
        assert self._process is not None and self._process.stdin is not None, self.absent
        print(json.dumps([what, *arguments]), file=self._process.stdin, flush=True)
        return float(self._answer())

    def _answer(self) -> Any:
        assert self._process is not None and self._process.stdout is not None
        return json.loads(self._process.stdout.readline())


def _install(python: Path) -> None:
    """Make the environment, unless it is there and works."""
    check = [str(python), "-c", "import kernel_tuner.integration"]
    if python.exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return
    print("installing Kernel Tuner into an environment of its own", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(python.parent.parent)], check=True)
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "kernel_tuner"]
    subprocess.run([str(python), *words], check=True)
    subprocess.run(check, check=True)
