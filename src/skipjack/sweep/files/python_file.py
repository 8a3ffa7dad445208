"""Sweep files in Python: each global list is a parameter, each META function a hook."""

from __future__ import annotations

import ast
import re
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from types import GeneratorType, ModuleType
from typing import Any

from skipjack.errors import UsageError
from skipjack.search import scripted
from skipjack.sweep.files.blame import blaming_file, place
from skipjack.sweep.files.hooks import SEARCH, Hooks, check_hook_names
from skipjack.sweep.files.legacy_imports import FileImports
from skipjack.sweep.files.sweep_file import Scalar, SweepFile
from skipjack.sweep.files.values import check_values, is_array

_NO_LISTS = (tuple, range, set, frozenset, deque, map, filter, zip, GeneratorType)
"""What looks like the values of a parameter and would go unnoticed."""


def read_python_file(path: Path, text: str, digest: str) -> SweepFile:
    """Execute the file in a module of its own and take what it defines."""
    definitions = _definitions(path, text)
    module = ModuleType("skipjack_sweep_file_" + re.sub(r"\W", "_", path.stem))
    module.__file__ = str(path)
    # Published examples use the searchers without importing them.
    vars(module).update({name: getattr(scripted, name) for name in scripted.__all__})
    imports = FileImports(path, module)
    imports.warn_about_neighbour(text)
    with blaming_file(path, "the file"), imports.active():
        # The file is the user's own program, named on the command line to be executed.
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    names = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    functions = check_hook_names(names, definitions.lines, path)
    parameters = _parameters(path, names, definitions, searched=SEARCH in functions)
    hooks = Hooks(path, functions, definitions.lines, imports)
    return SweepFile(
        path=path,
        parameters=parameters,
        no_rebuild=hooks.no_rebuild(parameters),
        is_valid=hooks.is_valid(parameters),
        search=hooks.search(),
        synthetic=hooks.synthetic(),
        digest=digest,
        lines={name: definitions.lines.get(name, 0) for name in parameters},
    )


def _parameters(
    path: Path, names: Mapping[str, Any], definitions: _Definitions, *, searched: bool
) -> dict[str, tuple[Scalar, ...]]:
    """Lists of values. A file with a search names its points itself, so that its other lists,
    tuples and the like are its own affair."""
    parameters: dict[str, tuple[Scalar, ...]] = {}
    for name, value in names.items():
        where = place(path, definitions.lines.get(name))
        if isinstance(value, list) and not (
            searched and any(isinstance(one, (list, dict, tuple)) for one in value)
        ):
            parameters[name] = check_values(name, value, where)
        elif not searched and definitions.looks_like_a_parameter(name) and _is_no_list(value):
            raise UsageError(
                f"{where}: {name} is a {type(value).__name__}, which is no parameter; write a "
                f"list, or call it _{name} if it is not swept"
            )
    return parameters


def _is_no_list(value: object) -> bool:
    # A named tuple or an enumeration is somebody's type, no listing of values.
    return type(value) in _NO_LISTS or is_array(value)


class _Definitions(ast.NodeVisitor):
    """Where the global names of a file come from."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.imported: set[str] = set()

    def looks_like_a_parameter(self, name: str) -> bool:
        """Constants in capitals and imported names are left alone."""
        return name in self.lines and name not in self.imported and name.upper() != name

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.lines[node.name] = node.lineno

    visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.expr) -> None:
        """Names in it are its own, as in comprehensions."""

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """What is added to was defined before."""

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.lines[node.id] = node.lineno

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            self.lines[name] = node.lineno
            self.imported.add(name)

    visit_ImportFrom = visit_Import


def _definitions(path: Path, text: str) -> _Definitions:
    try:
        tree = ast.parse(text, filename=str(path))
    except SyntaxError as error:
        where = place(path, error.lineno)
        raise UsageError(f"{where}: this is not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path}: this is not Python: {error}") from None
    definitions = _Definitions()
    definitions.visit(tree)
    return definitions
