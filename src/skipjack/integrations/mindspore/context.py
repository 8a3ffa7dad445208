"""``set_context``: tuning is turned on in a program by MindSpore's own words.

A setting that means nothing is logged as a warning, and the program goes on as it was.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, fields, replace

from skipjack.core.naming import did_you_mean
from skipjack.errors import SkipjackError, UsageError
from skipjack.integrations.mindspore.modes import (
    GRAPH_MODE,
    NO_TUNE,
    PYNATIVE_MODE,
    mode_policy,
    searchers_of,
)
from skipjack.integrations.mindspore.variables import read_variables
from skipjack.integrations.torch import (
    ResultWish,
    enable,
    keep_results,
    operations,
)
from skipjack.runtime import current_policy
from skipjack.settings import TORCH_OPS

log = logging.getLogger(__name__)

DEVICE_TARGETS = ("CPU", "GPU")


@dataclass(frozen=True, slots=True)
class Context:
    """What was set."""

    mode: int = GRAPH_MODE
    """PyTorch runs as the program says; the word is kept for whoever asks."""
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
    """Say how the program runs; what is not given stays as it is.

    `mode` is ``GRAPH_MODE`` or ``PYNATIVE_MODE``, `device_target` ``CPU`` or ``GPU``, and
    `auto_tune_mode` one of ``NO_TUNE``, ``RL``, ``GA``, ``RL,GA`` and ``GA,RL``: with one of the
    last four PyTorch's operations are tuned from now on while the program runs, with ``NO_TUNE``
    they take what banks know. `others` are settings that MindSpore has and PyTorch does not: they
    are logged as a warning, and ignored.
    """
    global _context
    if others:
        log.warning("set_context has no %s here, and ignores it", " and no ".join(others))
    given = {"mode": mode, "device_target": device_target, "auto_tune_mode": auto_tune_mode}
    named = {name: value for name, value in given.items() if value is not None}
    try:
        wanted = _checked(replace(_context, **named))  # type: ignore[arg-type]
        if auto_tune_mode is not None:
            _turn(wanted.auto_tune_mode)
    except SkipjackError as error:
        log.warning("%s; the program goes on as it was", error)
        return
    _context = wanted


def get_context(name: str) -> int | str:
    """What was set under a name; a name that there is not is a `UsageError`."""
    names = [one.name for one in fields(Context)]
    if name not in names:
        hint = did_you_mean(str(name), names)
        raise UsageError(f"the context has no {name!r}; it has {', '.join(names)}{hint}")
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
    """Have the hook do what a mode says."""
    theirs = read_variables(os.environ)
    theirs.put_into(os.environ, lambda sentence: log.warning("%s", sentence))
    searchers = searchers_of(mode)
    policy, said = theirs.policy(mode_policy(searchers)) or "db", current_policy()
    keep_results(ResultWish(policy, mode, bool(searchers)))
    enable(
        policy,
        seconds=said.seconds,
        background=said.background,
        regret=said.regret,
        searchers=searchers or None,
        ops=operations(TORCH_OPS.text()),
    )
