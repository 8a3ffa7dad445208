"""Enabling the hook in a program that ``skipjack exec`` runs, by its environment."""

from __future__ import annotations

from skipjack.integrations.mindspore import auto_tune_mode
from skipjack.integrations.torch.outcomes import ResultRequest, keep_results
from skipjack.runtime.dumps import dump_folder
from skipjack.runtime.process import current_policy
from skipjack.settings import TORCH_OPS, TUNE_RESULT


def start_in_program() -> None:
    """Enable the hook with the policy and the operations in the environment."""
    policy = current_policy()
    dumps = dump_folder() is not None
    mode = "db" if dumps else policy.mode
    asked = (policy.measures and not dumps) or TUNE_RESULT.text() == "1"
    keep_results(ResultRequest(mode, auto_tune_mode(policy.searchers), asked))
    if mode == "off":
        return
    from skipjack.integrations.torch.activation import enable

    enable(
        mode,
        seconds=policy.seconds,
        background=policy.background,
        regret=policy.regret,
        searchers=dict(policy.searchers),
        ops=operation_names(TORCH_OPS.text()),
    )


def operation_names(text: str) -> list[str] | None:
    """Names separated by commas; None if there are none."""
    return [word for part in text.split(",") if (word := part.strip())] or None
