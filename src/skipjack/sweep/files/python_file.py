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
from skipjack.sweep.files.hooks import SEARCH, Hooks, check_hook_names
from skipjack.sweep.files.legacy_imports import FileImports
from skipjack.sweep.files.sweep_file import (
    Scalar,
    SweepFile,
    check_values,
    is_array,
    locating_errors,
    location,
)

_NO_LISTS = (tuple, range, set, frozenset, deque, map, filter, zip, GeneratorType)
"""Types that look like values of a parameter but would be ignored."""


def read_python_file(path: Path, text: str, digest: str) -> SweepFile:
    """Execute the file in a module of its own and read its definitions."""
    definitions = _definitions(path, text)
    module = ModuleType("skipjack_sweep_file_" + re.sub(r"\W", "_", path.stem))
    module.__file__ = str(path)
    # Published examples use the searchers without importing them.
    vars(module).update({name: getattr(scripted, name) for name in scripted.__all__})
    imports = FileImports(path, module)
    imports.warn_about_library_file(text)
    with locating_errors(path, "the file"), imports.active():
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
    """The global lists of a file as parameters.

    In a file with a search, which makes its own points, other collections are ignored.
    """
    parameters: dict[str, tuple[Scalar, ...]] = {}
    for name, value in names.items():
        where = location(path, definitions.lines.get(name))
        if isinstance(value, list) and not (
            searched and any(isinstance(one, (list, dict, tuple)) for one in value)
        ):
            parameters[name] = check_values(name, value, where)
        elif not searched and definitions.looks_like_a_parameter(name) and _is_no_list(value):
            raise UsageError(
                f"{where}: {name} is a {type(value).__name__}, which cannot be a parameter; "
                f"write a list, or rename it to _{name} if it is not swept"
            )
    return parameters


def _is_no_list(value: object) -> bool:
    # Subclasses, such as named tuples and enumerations, are not lists of values.
    return type(value) in _NO_LISTS or is_array(value)


class _Definitions(ast.NodeVisitor):
    """The lines on which a file defines its global names."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.imported: set[str] = set()

    def looks_like_a_parameter(self, name: str) -> bool:
        """Whether a name is neither imported nor written in capitals."""
        return name in self.lines and name not in self.imported and name.upper() != name

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self.lines[node.name] = node.lineno

    visit_ClassDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.expr) -> None:
        """Skip local names, as in comprehensions."""

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Skip: the name was defined before."""

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
        where = location(path, error.lineno)
        raise UsageError(f"{where}: invalid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path}: invalid Python: {error}") from None
    definitions = _Definitions()
    definitions.visit(tree)
    return definitions
