"""What PyTorch calls at the end of ``import torch``: an entry point of its group torch.backends.

Without the variable that ``skipjack exec`` sets nothing happens. With it the hook is enabled; where
that fails there is one warning, and the program goes on with PyTorch as it is.
"""

from __future__ import annotations

import os

HOOK_VARIABLE = "SKIPJACK_TORCH"
"""``1``: the hook is enabled as soon as PyTorch was imported."""


def start() -> None:
    """Enable the hook if this process is to have it; raises nothing."""
    if os.environ.get(HOOK_VARIABLE) != "1":
        return
    try:
        import gc

        # PyTorch has made a million objects by now: one look at all of them takes 40 ms.
        collects = gc.isenabled()
        gc.disable()
        try:
            from skipjack.integrations.torch import start_in_program

            start_in_program()
        finally:
            if collects:
                gc.enable()
    except Exception as error:
        import logging

        logging.getLogger(__name__).warning(
            "Skipjack cannot be used in this program, which goes on with PyTorch as it is: %s: %s",
            type(error).__name__,
            error,
        )
