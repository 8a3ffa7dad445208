"""Variables of MindSpore's AutoTune, which hold for ``skipjack tune DIR`` as for the program."""

from __future__ import annotations

import os
from collections.abc import Callable


def use_autotune_variables(say: Callable[[str], None]) -> bool:
    """Have AutoTune's variables count for this command, as they did for the program.

    True if they ask for problems that banks know to be tuned again.
    """
    from skipjack.integrations.mindspore import read_variables

    theirs = read_variables(os.environ)
    theirs.put_into(os.environ, say)
    return theirs.policy("incremental") == "exhaustive"
