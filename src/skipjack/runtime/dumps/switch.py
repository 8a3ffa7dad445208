"""Whether a program is to be dumped, and where to: two variables of AutoTune's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from skipjack.errors import UsageError
from skipjack.reading import quoted
from skipjack.settings import ENABLE_TUNE_DUMP, TUNE_DUMP_PATH

DEFAULT_FOLDER = "tune_dump"
"""In the working directory."""


def dump_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """Where to dump; None if nobody asked for it. `UsageError` for a value that is no answer."""
    said = ENABLE_TUNE_DUMP.text(environment).strip()
    if said.lower() not in ("", "true", "false"):
        raise UsageError(f"{ENABLE_TUNE_DUMP} is {quoted(said)}; write True or False")
    if said.lower() != "true":
        return None
    return Path(TUNE_DUMP_PATH.text(environment) or DEFAULT_FOLDER).expanduser().absolute()
