"""The settings of a use case and the names of engines; loads neither store nor compiler."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from skipjack import plugins as loaded_plugins
from skipjack.settings import Settings, load_settings

# The settings of a use case.


def configured(settings: Settings | None = None, plugins: Sequence[str] = ()) -> Settings:
    """The given settings, or those of the environment, after loading their plug-ins.

    `plugins` replace those of the environment.
    """
    chosen = settings or load_settings(plugins=tuple(plugins) or None)
    loaded_plugins.load(chosen.plugins)
    return chosen


# The names of engines, which the command line offers without loading a store.


class EngineName(StrEnum):
    """Where workers run."""

    LOCAL = "local"
    RAY = "ray"
    SLURM = "slurm"
