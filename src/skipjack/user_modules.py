"""Python files of users, loaded by their paths: plug-ins, and kernels that are tuned."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType


class _CurrentSource(importlib.machinery.SourceFileLoader):
    """Compiles a file as it is now.

    Cached byte code goes by seconds and size, so that it may be that of the text before an edit.
    """

    def path_stats(self, path: str) -> Mapping[str, object]:
        """No date, so that byte code is neither read nor written."""
        raise OSError(f"byte code of {path} is not cached")


def load_file(name: str, path: Path) -> ModuleType:
    """Run a file as the module of this name; what it imports from its own folder is found."""
    loader = _CurrentSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
