"""Import paths that earlier documentation showed: they work, with a warning that names the new one.

The finder is asked last, for modules of ours that do not exist, so other imports are not slower.
"""

import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "skipjack.core.objective": "skipjack.core",
    "skipjack.core.trial": "skipjack.core",
    "skipjack.fleet.importing": "skipjack.fleet.problem_import",
    "skipjack.fleet.release.compare.comparing": "skipjack.fleet.release.compare",
    "skipjack.fleet.release.compare.gates": "skipjack.fleet.release.compare",
    "skipjack.fleet.release.results.config_text": "skipjack.fleet.release.results",
    "skipjack.fleet.release.results.sources": "skipjack.fleet.release.results",
    "skipjack.interop.loadgen_log": "skipjack.interop.loadgen",
    "skipjack.interop.power_log": "skipjack.interop.loadgen",
    "skipjack.report.sweep_files": "skipjack.report.sweep",
    "skipjack.report.sweep_plots": "skipjack.report.sweep",
    "skipjack.report.sweep_table": "skipjack.report.sweep",
    "skipjack.search.genetic": "skipjack.search",
    "skipjack.search.ranking": "skipjack.search",
    "skipjack.sweep.heat.sensors": "skipjack.sweep.bench",
    "skipjack.sweep.heat.thermal": "skipjack.sweep.bench",
    "skipjack.sweep.outcome": "skipjack.sweep.bench",
    "skipjack.sweep.result": "skipjack.sweep.engine",
}
"""Modules that are gone, and the packages that offer their names now."""

RENAMED = {
    ("skipjack.interop.loadgen_log", "LoadgenVerdict"): "RunValidity",
    ("skipjack.sweep.outcome", "Outcome"): "RunOutcome",
}
"""Names of these modules that changed as well."""


class _EarlierModule(ModuleType):
    """A module that looks its names up in the package that offers them now."""

    def __getattr__(self, name: str) -> Any:
        home = MOVED.get(self.__name__)
        if home is None or name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        new = RENAMED.get((self.__name__, name), name)
        value = getattr(importlib.import_module(home), new)
        warnings.warn(
            f"{self.__name__} is deprecated: write `from {home} import {new}`",
            DeprecationWarning,
            stacklevel=2,
        )
        return value


class _EarlierModules:
    """Finder and loader, without the base classes, which would load ten more modules."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith("skipjack."):
            return None
        is_folder = any(moved.startswith(f"{fullname}.") for moved in MOVED)
        if not is_folder and fullname not in MOVED:
            return None
        return ModuleSpec(fullname, self, is_package=is_folder)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _EarlierModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is no code: names are looked up when they are used."""


def keep_earlier_paths() -> None:
    """Make the earlier paths importable."""
    if not any(isinstance(finder, _EarlierModules) for finder in sys.meta_path):
        sys.meta_path.append(_EarlierModules())
