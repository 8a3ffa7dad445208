"""Whether a program is to be dumped, and where to: two variables of AutoTune's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.reading import quoted

ENABLE_VARIABLE, PATH_VARIABLE = "ENABLE_TUNE_DUMP", "TUNE_DUMP_PATH"
DEFAULT_FOLDER = "tune_dump"
"""In the working directory."""


def dump_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where to dump; None if nobody asked for it. `UsageError` for a value that is no answer."""
    known = os.environ if environment is None else environment
    said = known.get(ENABLE_VARIABLE, "").strip()
    if said.lower() not in ("", "true", "false"):
        raise UsageError(f"{ENABLE_VARIABLE} is {quoted(said)}; write True or False")
    if said.lower() != "true":
        return None
    return Path(known.get(PATH_VARIABLE) or DEFAULT_FOLDER).expanduser().absolute()
