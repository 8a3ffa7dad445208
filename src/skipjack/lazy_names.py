"""Names of a package that are loaded on first use.

The package lists its names by the modules that define them::

    __getattr__, __dir__ = lazy(__name__, {"merging": "merged union"})
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    `homes` has names by module, which may be in another package, such as ``skipjack.core.device``.
    After its first use, a name is an ordinary attribute of the package.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(home if home.startswith("skipjack.") else f"{package}.{home}")
        found = vars(sys.modules[package])[name] = getattr(module, name)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return load, listed
