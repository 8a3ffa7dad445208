"""Counts who computed calls, and runs programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any


class ForcedHook:
    """The hook of this process, for the time of a ``with``."""

    def __enter__(self) -> ForcedHook:
        import skipjack.torch
        from skipjack.integrations.torch.hook import torch_hook

        self._door = skipjack.torch
        hook = torch_hook()
        hook.forget()
        for entry in hook.table.entries.values():
            entry.forget_counts(0, 0)
        self._door.enable("db", force=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._door.disable()

    def enable(self) -> None:
        self._door.enable("db", force=True)

    def disable(self) -> None:
        self._door.disable()

    def counts(self) -> tuple[Counter[str], Counter[str]]:
        """Calls of each operation by our kernels, and by PyTorch's."""
        ours, theirs = Counter[str](), Counter[str]()
        for one in self._door.report().calls:
            ours[one.decision.op] += one.our_calls
            theirs[one.decision.op] += one.torch_calls
        return ours, theirs

    def counted(self, compute: Callable[[], Any]) -> tuple[Any, Counter[str], Counter[str]]:
        """What a function gives, and who computed meanwhile."""
        before = self.counts()
        result = compute()
        after = self.counts()
        return result, after[0] - before[0], after[1] - before[1]

    def devices(self, op: str, sizes: str) -> set[str]:
        """For which devices calls were decided about, by a part of their description."""
        found = [one.decision for one in self._door.report().calls]
        return {one.device for one in found if one.op == op and sizes in one.description}

    @staticmethod
    def hits() -> int:
        """Calls of this process by our kernels."""
        import skipjack.torch

        return skipjack.torch.report().hits

    def plainly(self, compute: Callable[[], Any]) -> Any:
        """What a function gives without the hook."""
        self.disable()
        try:
            return compute()
        finally:
            self.enable()


def run_program(
    text: str, folder: Path, timeout_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Run a Python program, with banks of its own in a folder."""
    return subprocess.run(
        [sys.executable, "-c", dedent(text)],
        env=program_environment(folder),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def program_environment(folder: Path) -> dict[str, str]:
    own = {"SKIPJACK_USER_DB_PATH": str(folder), "SKIPJACK_SYSTEM_DB_PATH": str(folder)}
    return {**os.environ, **own}
