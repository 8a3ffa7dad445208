"""``set_context``: enables tuning in a program with MindSpore's settings.

An invalid setting is logged as a warning, and the program continues unchanged.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields, replace

from skipjack.core import did_you_mean
from skipjack.errors import SkipjackError, UsageError
from skipjack.integrations.mindspore import (
    GRAPH_MODE,
    NO_TUNE,
    PYNATIVE_MODE,
    mode_policy,
    read_variables,
    searchers_of,
)
from skipjack.integrations.torch import enable, operation_names
from skipjack.integrations.torch.outcomes import ResultRequest, keep_results
from skipjack.runtime.process import current_policy
from skipjack.settings import TORCH_OPS

log = logging.getLogger(__name__)

DEVICE_TARGETS = ("CPU", "GPU")


@dataclass(frozen=True, slots=True)
class Context:
    """The settings of `set_context`."""

    mode: int = GRAPH_MODE
    """PyTorch ignores it; it is kept for `get_context`."""
    device_target: str = "CPU"
    auto_tune_mode: str = NO_TUNE


_context = Context()


def set_context(
    *,
    mode: int | None = None,
    device_target: str | None = None,
    auto_tune_mode: str | None = None,
    **others: object,
) -> None:
    """Change settings of the program; those that are not passed stay unchanged.

    `mode` is ``GRAPH_MODE`` or ``PYNATIVE_MODE``, `device_target` ``CPU`` or ``GPU``, and
    `auto_tune_mode` one of ``NO_TUNE``, ``RL``, ``GA``, ``RL,GA`` and ``GA,RL``: with one of the
    last four, PyTorch's operations are tuned while the program runs; with ``NO_TUNE`` they use only
    what banks know. `others` are settings of MindSpore without a meaning for PyTorch: a warning
    says that they are ignored.
    """
    global _context
    if others:
        log.warning("set_context ignores %s, which PyTorch does not have", " and ".join(others))
    given = {"mode": mode, "device_target": device_target, "auto_tune_mode": auto_tune_mode}
    named = {name: value for name, value in given.items() if value is not None}
    try:
        wanted = _checked(replace(_context, **named))  # type: ignore[arg-type]
        if auto_tune_mode is not None:
            _turn(wanted.auto_tune_mode)
    except SkipjackError as error:
        log.warning("%s; the program continues unchanged", error)
        return
    _context = wanted


def get_context(name: str) -> int | str:
    """The value of a setting; an unknown name is a `UsageError`."""
    names = [one.name for one in fields(Context)]
    if name not in names:
        hint = did_you_mean(str(name), names)
        raise UsageError(f"the context has no setting {name!r}; it has {', '.join(names)}{hint}")
    found: int | str = getattr(_context, name)
    return found


def _checked(context: Context) -> Context:
    if context.mode not in (GRAPH_MODE, PYNATIVE_MODE):
        raise UsageError(f"mode is {context.mode!r}; write GRAPH_MODE or PYNATIVE_MODE")
    if context.device_target not in DEVICE_TARGETS:
        raise UsageError(
            f"device_target is {context.device_target!r}, for which Skipjack has no kernels; "
            "write CPU or GPU"
        )
    searchers_of(context.auto_tune_mode)
    return context


def _turn(mode: str) -> None:
    """Enable the hook as a mode says."""
    theirs = read_variables(os.environ)
    theirs.put_into(os.environ, lambda sentence: log.warning("%s", sentence))
    searchers = searchers_of(mode)
    policy, said = theirs.policy(mode_policy(searchers)) or "db", current_policy()
    keep_results(ResultRequest(policy, mode, bool(searchers)))
    enable(
        policy,
        seconds=said.seconds,
        background=said.background,
        regret=said.regret,
        searchers=searchers or None,
        ops=operation_names(TORCH_OPS.text()),
    )
