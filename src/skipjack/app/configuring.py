"""The settings that a use case works with."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack import plugins as loaded_plugins
from skipjack.settings import Settings, load_settings


def configured(settings: Settings | None = None, plugins: Sequence[str] = ()) -> Settings:
    """These settings, or those of the environment, with their plug-ins loaded.

    `plugins` are used instead of those that the environment names.
    """
    chosen = settings or load_settings(plugins=tuple(plugins) or None)
    loaded_plugins.load(chosen.plugins)
    return chosen
