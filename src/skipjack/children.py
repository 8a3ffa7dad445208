"""How processes of ours are started: their command line, and what their environment says."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PATHS = (
    *("SKIPJACK_USER_DB_PATH", "SKIPJACK_LOCK_DIR", "SKIPJACK_FLEET_KEY"),
    *("SKIPJACK_DB_PASSWORD_FILE", "SKIPJACK_MIOPEN_DRIVER"),
    *("RAY_AUTH_TOKEN_PATH", "TMPDIR"),
)
SECRETS = frozenset(
    (
        *("SKIPJACK_DB", "SKIPJACK_DB_PASSWORD_FILE", "SKIPJACK_FLEET_KEY", "SKIPJACK_SSH_CONFIG"),
        *("PGPASSWORD", "PGPASSFILE", "MYSQL_PWD"),
    )
)
"""Variables that hold secrets or say where they are. Workers run kernels of others: they are told
what to do, open no database and seal nothing."""
_PROGRAMS_OWN = frozenset(("SKIPJACK_TORCH",))
"""Variables for the program that a worker works for: PyTorch is itself in what is measured."""
_ENGINE, _SSH = "SKIPJACK_CONTAINER_ENGINE", "SKIPJACK_SSH_CONFIG"
_RELATIVE_SQLITE = "sqlite:///"

SAFE_DIRECTORY = Path("/")
"""Where nobody but root can put modules: for programs that look for some where they are started."""


def python_command(module: str, *words: str, python: str = sys.executable) -> list[str]:
    """The command line that runs a module; the only one that is built for a process of ours.

    -P keeps the current directory out of the search for modules: a file ``json.py`` in there is of
    whoever wrote it, which may be another user, and has no part in what we do.
    """
    return [python, "-P", "-m", module, *words]


def worker_environment() -> dict[str, str]:
    """What a worker gets of this process's environment."""
    kept_back = SECRETS | _PROGRAMS_OWN
    return {name: value for name, value in os.environ.items() if name not in kept_back}


def environment_for(directory: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Variables that name files mean the same in `directory` as they do here."""
    here = Path.cwd()
    found = dict(environment)
    if directory.resolve() == here.resolve():
        return found
    paths = list(_PATHS)
    if "/" in found.get(_ENGINE, ""):  # else it is a program on PATH
        paths.append(_ENGINE)
    if found.get(_SSH) != "none":  # which ssh takes for no file at all
        paths.append(_SSH)
    for name in paths:
        if found.get(name) and not found[name].startswith("~"):
            found[name] = str(here / found[name])
    url = found.get("SKIPJACK_DB", "")
    if url.startswith(_RELATIVE_SQLITE) and not url.startswith(f"{_RELATIVE_SQLITE}/"):
        found["SKIPJACK_DB"] = f"{_RELATIVE_SQLITE}{here / url.removeprefix(_RELATIVE_SQLITE)}"
    if found.get("PYTHONPATH"):
        entries = found["PYTHONPATH"].split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join(str(here / one) for one in entries)
    plugins = found.get("SKIPJACK_PLUGINS", "").split(os.pathsep)
    if plugins != [""]:
        absolute = (str(here / one) if one.endswith(".py") else one for one in plugins)
        found["SKIPJACK_PLUGINS"] = os.pathsep.join(absolute)
    return found
