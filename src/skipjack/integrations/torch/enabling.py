"""Turning it on and off."""

from __future__ import annotations

import atexit
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from skipjack.integrations.mindspore import auto_tune_mode
from skipjack.integrations.torch.choosing import HookOptions
from skipjack.integrations.torch.dumping import dump_program
from skipjack.integrations.torch.hook import TorchHook, existing_hook, torch_hook
from skipjack.integrations.torch.reporting import report
from skipjack.integrations.torch.result_file import CallKey, call_key
from skipjack.integrations.torch.results import (
    ResultWish,
    keep_results,
    kept_results,
)
from skipjack.integrations.torch.signatures import why_unknown
from skipjack.runtime import POLICY_ARGUMENTS, TuningPolicy, make_policy
from skipjack.runtime.dumps import dump_folder
from skipjack.settings import TUNE_RESULT

log = logging.getLogger(__name__)

_at_exit = False
_options: HookOptions | None = None
"""Those that the hook was last enabled with."""


def enable(
    policy: str | int = "db",
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: float | str | None = None,
    ops: Sequence[str] | None = None,
    force: bool = False,
    searchers: Mapping[str, str] | None = None,
) -> None:
    """Have tuned kernels compute PyTorch's operations in this process, where they are faster.

    `policy`, `seconds`, `background` and `regret` are as for `skipjack.tuning_policy`. `ops` names
    the operations that may have kernels of ours, all by default. With `force` they have them
    whether or not they are faster. `searchers` is as for `skipjack.tuning_policy`, too.
    `UsageError` where PyTorch is missing or too old.

    With ``ENABLE_TUNE_DUMP=True`` in the environment the program is dumped, and nothing is searched
    whatever the policy is.
    """
    global _at_exit, _options
    chosen = make_policy(
        *(policy, searchers),
        seconds=seconds,
        background=background,
        regret=regret,
        names=POLICY_ARGUMENTS | {"mode": "the argument policy"},
    )
    names = _named(ops)
    folder = dump_folder()
    if folder:
        chosen = make_policy("db")
    hook = torch_hook()
    if chosen.measures:
        from skipjack.runtime.online import tuning_process

        tuning_process().warm()
    _tell(hook, chosen)
    _options = HookOptions(chosen, names, force, times_torch=folder is not None)
    hook.install(_options)
    if not _at_exit:
        _at_exit = True
        atexit.register(disable)
    if folder:
        dump_program(folder, names)


def _named(ops: Sequence[str] | None) -> tuple[str, ...]:
    """Names without their namespace; a warning names one that is unknown, and it covers no call."""
    given = (ops,) if isinstance(ops, str) else tuple(ops or ())
    names = tuple(one.rpartition("::")[2] for one in given)
    for name in names:
        if sentence := why_unknown(name):
            log.warning("%s", sentence)
    return names


def _tell(hook: TorchHook, policy: TuningPolicy) -> None:
    """Have the result file follow what the hook decides, if somebody wants one."""
    results = kept_results()
    if results is None and TUNE_RESULT.text() != "1":
        return
    wish = ResultWish(policy.mode, auto_tune_mode(policy.searchers), results is None)
    results = keep_results(wish)
    if results.take not in hook.listeners:
        hook.listeners.append(results.take)
        results.count_calls(_counts)


def _counts() -> Mapping[CallKey, int]:
    counts: Counter[CallKey] = Counter()
    for one in report().calls:
        counts[call_key(one.decision)] += one.our_calls + one.torch_calls
    return counts


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
    """``with autotune("incremental"):`` enables it inside, for all threads of the process.

    Where it is enabled already, its options are those of before when the block ends.
    """
    before = _options if is_enabled() else None
    enable(policy, seconds=seconds, background=background, regret=regret, ops=ops, force=force)
    try:
        yield
    finally:
        if before is None:
            disable()
        else:
            _enable_again(before)


def _enable_again(options: HookOptions) -> None:
    global _options
    _options = options
    hook = torch_hook()
    _tell(hook, options.policy)
    hook.install(options)
