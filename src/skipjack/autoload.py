"""The entry point that PyTorch calls at the end of ``import torch``, of its group torch.backends.

It does nothing unless ``skipjack exec`` has set a variable. Then it enables the hook; if that
fails, it logs one warning, and the program continues with PyTorch as it is.
"""

from __future__ import annotations

import os

HOOK_VARIABLE = "SKIPJACK_TORCH"
"""If ``1``, the hook is enabled as soon as PyTorch is imported."""


def start() -> None:
    """Enable the hook if this process should have it; never raises."""
    if os.environ.get(HOOK_VARIABLE) != "1":
        return
    try:
        import gc

        # PyTorch has created a million objects by now: a garbage collection takes 40 ms.
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
            "Skipjack cannot be used in this program, which runs with PyTorch as it is: %s: %s",
            type(error).__name__,
            error,
        )
