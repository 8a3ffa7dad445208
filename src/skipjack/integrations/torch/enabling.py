"""Turning it on and off."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from skipjack.integrations.torch.choosing import HookOptions
from skipjack.integrations.torch.hook import existing_hook, torch_hook
from skipjack.runtime import make_policy

_at_exit = False


def enable(
    policy: str | int = "db",
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: float | str | None = None,
    ops: Sequence[str] | None = None,
    force: bool = False,
) -> None:
    """Have tuned kernels compute PyTorch's operations in this process, where they are faster.

    `policy`, `seconds`, `background` and `regret` are as for `skipjack.tuning_policy`. `ops` names
    the operations that may have kernels of ours, all by default. With `force` they have them
    whether or not they are faster. `UsageError` where PyTorch is missing or too old.
    """
    global _at_exit
    chosen = make_policy(policy, seconds=seconds, background=background, regret=regret)
    names = (ops,) if isinstance(ops, str) else tuple(ops or ())
    if chosen.measures:
        from skipjack.runtime.online import tuning_process

        tuning_process().warm()
    torch_hook().install(HookOptions(chosen, names, force))
    if not _at_exit:
        _at_exit = True
        atexit.register(disable)


def disable() -> None:
    """PyTorch's own kernels compute everything again."""
    if hook := existing_hook():
        hook.uninstall()


def is_enabled() -> bool:
    """Whether tuned kernels may compute PyTorch's operations."""
    hook = existing_hook()
    return hook is not None and hook.is_installed


@contextmanager
def autotune(
    policy: str | int = "db",
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: float | str | None = None,
    ops: Sequence[str] | None = None,
    force: bool = False,
) -> Iterator[None]:
    """``with autotune("incremental"):`` enables it inside, for all threads of the process."""
    was_enabled = is_enabled()
    enable(policy, seconds=seconds, background=background, regret=regret, ops=ops, force=force)
    try:
        yield
    finally:
        if not was_enabled:
            disable()
