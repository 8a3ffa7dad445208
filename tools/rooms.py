#!/usr/bin/env python3
"""Move, merge and rename modules of `src/skipjack` as a plan says, everywhere at once.

    tools/rooms.py check PLAN...     what stands in the way of a plan
    tools/rooms.py apply PLAN...     carry it out: source, tests, benchmarks, examples, docs
    tools/rooms.py table PLAN...     old and new names as a page in Markdown

Lines of a plan, with paths relative to `src/skipjack`:

    package FOLDER = docstring of a folder's __init__
    file NEW = OLD [OLD...]          a module made of one or several
    doc NEW = docstring of a module
    name OLD:NAME = NEW_NAME         a class, function or constant of a module
    word OLD = NEW [in FOLDER...]    an identifier: attributes, methods, parameters, variables; in
                                     all Python files, or below folders as they will be called
    test tests/NEW = tests/OLD       a test file that moves

Names that other folders import are offered by the `__init__` of their folder, which loads them when
they are first used (`skipjack.lazy_names`). Run `ruff check --fix` and `ruff format` afterwards.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = SOURCE / "skipjack"
OTHERS = ("tests", "bench", "examples", "tools")
"""Folders of Python files that use the package."""
TEXTS = ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", "docs", "examples", "tests")
HOUSES = ("skipjack.fleet.store",)
"""Packages whose `__init__` is the API of their sub-folders too."""
MOST_LINES = 400
MOST_FILES = 20

Symbol = tuple[str, str]
"""A module and a name in it; the name is empty for the module itself."""


@dataclass
class Plan:
    """What the plans ask for."""

    packages: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    names: dict[Symbol, str] = field(default_factory=dict)
    words: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Identifiers, what they become, and below which folders (none: everywhere)."""
    tests: dict[str, str] = field(default_factory=dict)


class Problems(list[str]):
    """What stands in the way, in the order found."""

    def say(self, text: str) -> None:
        if text not in self:
            self.append(text)


def module_name(path: str) -> str:
    """``solvers/cpu/nest.py`` is ``skipjack.solvers.cpu.nest``."""
    parts = Path(path).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(("skipjack", *parts))


def module_path(name: str, packages: set[str]) -> Path:
    base = SOURCE / name.replace(".", "/")
    return base / "__init__.py" if name in packages else base.with_suffix(".py")


def read_plans(paths: list[str], problems: Problems) -> Plan:
    plan = Plan()
    for path in paths:
        for number, raw in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
            line = raw.strip()
            if not line or line.startswith("#"):
                continue
            where = f"{Path(path).name}:{number}"
            verb, _, rest = line.partition(" ")
            left, equals, right = (part.strip() for part in rest.partition(" = "))
            if not equals or not right:
                problems.say(f"{where}: no ' = ' with something on both sides: {line}")
            elif verb == "package":
                plan.packages[module_name(left.strip("/"))] = right
            elif verb == "file":
                if module_name(left) in plan.parts:
                    problems.say(f"{where}: {left} is planned twice")
                plan.parts[module_name(left)] = [module_name(old) for old in right.split()]
            elif verb == "doc":
                plan.docs[module_name(left)] = right
            elif verb == "name":
                file, _, name = left.rpartition(":")
                plan.names[module_name(file), name] = right
            elif verb == "word":
                word, _, folders = right.partition(" in ")
                plan.words.append((left, word.strip(), tuple(folders.split())))
            elif verb == "test":
                plan.tests[right] = left
            else:
                problems.say(f"{where}: unknown word {verb!r}")
    return plan


def is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING",
        "typing.TYPE_CHECKING",
    )


def bound_names(node: ast.stmt) -> list[str]:
    """Names that a top-level statement binds; of imports too."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [
            name.id
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        ]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    if isinstance(node, ast.TypeAlias if hasattr(ast, "TypeAlias") else ()):
        return [node.name.id]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).split(".")[0] for alias in node.names]
    if isinstance(node, ast.If | ast.Try | ast.With | ast.For):
        inner = [*getattr(node, "body", []), *getattr(node, "orelse", [])]
        for handler in getattr(node, "handlers", []):
            inner += handler.body
        return [name for one in inner for name in bound_names(one)]
    return []


@dataclass
class Module:
    """A module as it is today."""

    name: str
    path: Path
    is_package: bool
    source: bytes
    tree: ast.Module
    defined: set[str] = field(default_factory=set)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Top-level imports of ours: bound name to the module and the name in it."""
    offered: list[str] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


def read_module(name: str, path: Path) -> Module:
    source = path.read_bytes()
    module = Module(name, path, path.name == "__init__.py", source, ast.parse(source))
    statements = list(module.tree.body)
    while statements:
        node = statements.pop(0)
        if is_type_checking(node):
            assert isinstance(node, ast.If)
            statements = [*node.body, *statements]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "skipjack":
            for alias in node.names:
                module.imported[alias.asname or alias.name] = (str(node.module), alias.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            continue
        else:
            module.defined.update(bound_names(node))
            if "__all__" in bound_names(node) and isinstance(node, ast.Assign):
                module.offered = list(ast.literal_eval(node.value))
    return module


class House:
    """All modules, and where each and each of its names will be."""

    def __init__(self, plan: Plan, problems: Problems) -> None:
        self.plan, self.problems = plan, problems
        self.modules = {
            name: read_module(name, path)
            for path in sorted(PACKAGE.rglob("*.py"))
            for name in [module_name(str(path.relative_to(PACKAGE)))]
        }
        self.new_of = {name: name for name in self.modules}
        self.code_moved: dict[str, str] = {}
        """Packages whose `__init__` has code that goes to a module."""
        self._place()
        self.packages = {
            parent
            for new in self.new_of.values()
            for parent in parents_of(new, new in self.modules and self.modules[new].is_package)
        }
        self.packages -= {name for name in self.packages if self._is_left_empty(name)}
        self.taken_out = {
            old for olds in plan.parts.values() for old in olds if old not in self.code_moved
        }
        self.api: dict[str, dict[str, Symbol]] = defaultdict(dict)
        """By package: offered names, and the new module and name behind each."""

    def _place(self) -> None:
        seen: dict[str, str] = {}
        for new, olds in self.plan.parts.items():
            for old in olds:
                if old not in self.modules:
                    self.problems.say(f"{old} is not there")
                elif old in seen:
                    self.problems.say(f"{old} goes to {seen[old]} and to {new}")
                elif self.modules[old].is_package:
                    self.code_moved[old] = new
                else:
                    self.new_of[old] = new
                seen[old] = new
            if new in self.modules and new not in olds and not self._leaves(new):
                self.problems.say(f"{new} is there already, and not among its own parts")
        for symbol in self.plan.names:
            module = self.modules.get(symbol[0])
            if module is None:
                self.problems.say(f"name: {symbol[0]} is not there")
            elif symbol[1] not in module.defined:
                self.problems.say(f"name: {symbol[0]} does not define {symbol[1]}")

    def _is_left_empty(self, package: str) -> bool:
        """Whether all modules of a package go elsewhere, and its `__init__` has no code."""
        inside = any(new.startswith(f"{package}.") for new in self.new_of.values())
        module = self.modules.get(package)
        return (
            not inside
            and package not in self.plan.packages
            and (module is None or is_plain_init(module))
        )

    def _leaves(self, name: str) -> bool:
        return any(name in olds for olds in self.plan.parts.values())

    def origin(self, module: str, name: str) -> Symbol:
        """Where a name that a module offers is defined; the name is empty if it is a module."""
        for _ in range(20):
            known = self.modules.get(module)
            if known is None:
                return module, name
            if name in known.imported and name not in known.defined:
                if known.imported[name] == (module, name):
                    return f"{module}.{name}", ""
                module, name = known.imported[name]
                continue
            if name not in known.defined and f"{module}.{name}" in self.modules:
                return f"{module}.{name}", ""
            return module, name
        raise AssertionError(f"imports of {module}.{name} go round in circles")

    def target(self, symbol: Symbol) -> Symbol:
        """Where something defined will be."""
        module, name = symbol
        if not name:
            return self.new_of.get(module, module), ""
        renamed = self.plan.names.get(symbol, name)
        if module in self.code_moved and name in self.modules[module].defined:
            return self.code_moved[module], renamed
        return self.new_of.get(module, module), renamed

    def folder_of(self, new: str) -> str:
        return new if new in self.packages else new.rpartition(".")[0]

    def door(self, symbol: Symbol, here: str) -> Symbol:
        """What a file in the folder `here` imports to get at something; notes what APIs offer."""
        module, name = symbol
        folder = self.folder_of(module)
        if not name:  # a module as a namespace
            parent, _, leaf = module.rpartition(".")
            if module not in self.packages and not within(here, parent):
                self.api[parent][leaf] = (module, "")
            return parent, leaf
        house = next((one for one in HOUSES if within(folder, one)), folder)
        if within(here, house) or module in self.packages:
            return module, name
        if house == "skipjack":
            return module, name
        self.offer(house, name, symbol)
        return house, name

    def offer(self, package: str, name: str, symbol: Symbol) -> None:
        known = self.api[package].get(name)
        if known is not None and known != symbol:
            self.problems.say(
                f"{package} would offer two things named {name}: of {known[0]}, of {symbol[0]}"
            )
        if name.startswith("_"):
            self.problems.say(f"{symbol[0]}:{name} is private and imported from another folder")
        if symbol[1] and f"{package}.{name}" in self.new_names():
            self.problems.say(f"{package} offers {name}, and has a module of that name")
        self.api[package][name] = symbol

    def new_names(self) -> set[str]:
        return {*self.new_of.values(), *self.packages, *self.plan.parts}


def parents_of(name: str, is_package: bool) -> list[str]:
    parts = name.split(".")
    found = [".".join(parts[:count]) for count in range(1, len(parts))]
    return [*found, name] if is_package else found


def within(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(f"{other}.")


# ---------------------------------------------------------------- text of one file, rewritten


@dataclass
class Import:
    """What an import statement became: lines, and whether it only serves types."""

    line: str
    for_types: bool


class Rewriter:
    """Rewrites one file: imports, uses of renamed names, dotted names in texts."""

    def __init__(
        self, house: House, path: Path, source: bytes, old_name: str, new_name: str, folder: str
    ) -> None:
        self.house, self.path, self.source = house, path, source
        self.old_name, self.new_name, self.folder = old_name, new_name, folder
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.edits: list[tuple[int, int, str]] = []
        self.renamed: dict[str, str] = {}
        """Names bound in this file that change."""
        self.merged_modules: dict[str, str] = {}
        """Names of modules imported as namespaces that are the same module now."""
        self.imports: list[Import] = []
        self.removed: list[ast.stmt] = []
        self.is_part = False

    def at(self, node: ast.AST, end: bool = False) -> int:
        line = node.end_lineno if end else node.lineno  # type: ignore[attr-defined]
        column = node.end_col_offset if end else node.col_offset  # type: ignore[attr-defined]
        return self.starts[line - 1] + int(column)

    def rewritten(self, keep_imports: bool) -> str:
        """The text; of a part without its module-level imports, docstring and `__future__`."""
        self.is_part = not keep_imports
        self._own_names()
        top = {id(node) for node in self.tree.body}
        for node in self.tree.body:
            if is_type_checking(node):
                assert isinstance(node, ast.If)
                top.update(map(id, node.body))
        typing_only = {
            id(one) for node in self.tree.body if is_type_checking(node) for one in ast.walk(node)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                self._import(node, id(node) in top, id(node) in typing_only)
        self._uses()
        self._texts()
        if self.is_part:
            self._take_out()
        return self._applied()

    def _own_names(self) -> None:
        """Names defined here that the plan renames."""
        for (module, name), new in self.house.plan.names.items():
            if module == self.old_name:
                self.renamed[name] = new

    def _import(self, node: ast.ImportFrom | ast.Import, is_top: bool, for_types: bool) -> None:
        if isinstance(node, ast.Import):
            self._plain_import(node, is_top, for_types)
            return
        module = node.module or ""
        if module.split(".")[0] != "skipjack":
            if self.is_part and is_top:
                if module != "__future__":
                    self.imports.append(Import(ast.unparse(node), for_types))
                self.removed.append(node)
            return
        lines: dict[str, list[str]] = {}
        for alias in node.names:
            self._one_name(module, alias, lines)
        made = [f"from {source} import {', '.join(names)}" for source, names in lines.items()]
        if self.is_part and is_top:
            self.imports += [Import(line, for_types) for line in made]
            self.removed.append(node)
            return
        old = self.source[self.at(node) : self.at(node, end=True)].decode()
        if "#" in old and "noqa" not in old:
            self.house.problems.say(f"{self.path}:{node.lineno}: a comment within an import")
        indent = " " * node.col_offset
        end = self.at(node, end=True)
        rest = self.source[end : self.source.index(b"\n", end)].decode()
        exempt = rest if "noqa" in rest else ""  # holds for each of the new statements
        text = f"{exempt}\n{indent}".join(made) or "pass"
        self.edits.append((self.at(node), end, text))

    def _one_name(self, module: str, alias: ast.alias, lines: dict[str, list[str]]) -> None:
        house = self.house
        origin = house.origin(module, alias.name)
        if origin[1] and origin[0] in house.modules and self._is_external(origin):
            # Neither defined there nor imported from us: leave the name where the module goes.
            new = (house.new_of.get(origin[0], origin[0]), alias.name)
        else:
            new = house.target(origin)
        bound = alias.asname or alias.name
        if new[0] == self.new_name and self.is_part:
            if not new[1]:
                self.merged_modules[bound] = origin[0]
            elif bound != new[1]:
                self.renamed[bound] = new[1]
            return
        if new[1] and new[0] == self.new_name:
            self.house.problems.say(f"{self.path}: would import {new[1]} from itself")
        source, name = self._door(new)
        if alias.asname is None and name != alias.name:
            self.renamed[alias.name] = name
        asname = f" as {alias.asname}" if alias.asname and alias.asname != name else ""
        if alias.asname and alias.asname == name and alias.asname != alias.name:
            asname = ""
        lines.setdefault(source, []).append(f"{name}{asname}")

    def _is_external(self, origin: Symbol) -> bool:
        return bool(origin[1]) and origin[1] not in self.house.modules[origin[0]].defined

    def _door(self, new: Symbol) -> Symbol:
        if self.folder:
            return self.house.door(new, self.folder)
        # Tests, benchmarks and examples take what the API offers, and the rest where it is.
        module, name = new
        if not name:
            parent, _, leaf = module.rpartition(".")
            return parent, leaf
        folder = self.house.folder_of(module)
        home = next((one for one in HOUSES if within(folder, one)), folder)
        if self.house.api[home].get(name) == new:
            return home, name
        return module, name

    def _plain_import(self, node: ast.Import, is_top: bool, for_types: bool) -> None:
        texts = []
        for alias in node.names:
            name = alias.name
            if name.split(".")[0] == "skipjack" and name in self.house.modules:
                name = self.house.new_of[name]
            texts.append(f"{name} as {alias.asname}" if alias.asname else name)
        text = f"import {', '.join(texts)}"
        if self.is_part and is_top:
            self.imports.append(Import(text, for_types))
            self.removed.append(node)
        else:
            self.edits.append((self.at(node), self.at(node, end=True), text))

    def _uses(self) -> None:
        spaces = self._namespaces()
        hidden = self._shadowed()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id in self.renamed:
                if id(node) not in hidden:
                    self.edits.append((self.at(node), self.at(node, True), self.renamed[node.id]))
            elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
                if node.name in self.renamed and node in self.tree.body:
                    start = self.source.index(node.name.encode(), self.at(node))
                    end = start + len(node.name.encode())
                    self.edits.append((start, end, self.renamed[node.name]))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                self._attribute(node, spaces, hidden)
            elif isinstance(node, ast.Global):
                for name in node.names:
                    if name in self.renamed:
                        self.house.problems.say(f"{self.path}:{node.lineno}: global {name}")

    def _namespaces(self) -> dict[str, str]:
        """Names that are modules of ours here, as they are called today."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skipjack"):
                for alias in node.names:
                    module, name = self.house.origin(str(node.module), alias.name)
                    if not name:
                        found[alias.asname or alias.name] = module
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.asname and alias.name.startswith("skipjack"):
                        found[alias.asname] = alias.name
        return found

    def _attribute(self, node: ast.Attribute, spaces: dict[str, str], hidden: set[int]) -> None:
        assert isinstance(node.value, ast.Name)
        space = spaces.get(node.value.id)
        if space is None or id(node.value) in hidden:
            return
        new = self.house.target(self.house.origin(space, node.attr))
        if node.value.id in self.merged_modules:
            self.edits = [edit for edit in self.edits if edit[0] != self.at(node.value)]
            self.edits.append((self.at(node), self.at(node, True), new[1] or node.attr))
        elif new[1] and new[1] != node.attr:
            end = self.at(node, True)
            self.edits.append((end - len(node.attr.encode()), end, new[1]))

    def _shadowed(self) -> set[int]:
        """Uses of a renamed name in functions that bind it themselves, as nodes."""
        found: set[int] = set()
        names = {*self.renamed, *self._namespaces()}
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            arguments = node.args
            own = {
                one.arg
                for one in [
                    *arguments.posonlyargs,
                    *arguments.args,
                    *arguments.kwonlyargs,
                    *filter(None, (arguments.vararg, arguments.kwarg)),
                ]
            }
            body = node.body if isinstance(node.body, list) else [node.body]
            for inner in (one for statement in body for one in ast.walk(statement)):
                if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
                    own.add(inner.id)
            own &= names
            if own:
                found.update(
                    id(inner)
                    for statement in body
                    for inner in ast.walk(statement)
                    if isinstance(inner, ast.Name) and inner.id in own
                )
        return found

    def _texts(self) -> None:
        """Dotted names and paths of modules in strings and comments."""
        taken = [(start, end) for start, end, _ in self.edits]
        tokens = tokenize.generate_tokens(io.StringIO(self.source.decode()).readline)
        lines = self.source.decode().splitlines(keepends=True)
        kinds = {tokenize.STRING, tokenize.COMMENT}
        if hasattr(tokenize, "FSTRING_MIDDLE"):
            kinds.add(tokenize.FSTRING_MIDDLE)
        for token in tokens:
            if token.type not in kinds:
                continue
            start = self._byte(lines, token.start)
            end = self._byte(lines, token.end)
            if any(start < other[1] and other[0] < end for other in taken):
                continue
            old = self.source[start:end].decode()
            new = rewritten_text(self.house, old, self.folder)
            for name, other in self.renamed.items():
                new = re.sub(rf"`{name}\b(?=[`.(\[])", f"`{other}", new)
            if new != old:
                self.edits.append((start, end, new))

    def _byte(self, lines: list[str], place: tuple[int, int]) -> int:
        line, column = place
        return self.starts[line - 1] + len(lines[line - 1][:column].encode())

    def _take_out(self) -> None:
        body = self.tree.body
        if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            self.removed.append(body[0])
        for node in body:
            if is_type_checking(node):
                assert isinstance(node, ast.If)
                if all(isinstance(one, ast.Import | ast.ImportFrom) for one in node.body):
                    self.removed = [one for one in self.removed if one not in node.body]
                    self.removed.append(node)
                else:
                    self.house.problems.say(f"{self.path}: TYPE_CHECKING has more than imports")
        for node in self.removed:
            start, end = self.starts[node.lineno - 1], self.at(node, True)
            rest = self.source[end : self.starts[node.end_lineno or 0]]
            if rest.strip() and not rest.strip().startswith(b"#"):
                self.house.problems.say(f"{self.path}:{node.lineno}: two statements on a line")
            end += len(rest)
            self.edits = [edit for edit in self.edits if not (start <= edit[0] < end)]
            self.edits.append((start, end, ""))

    def _applied(self) -> str:
        text = self.source
        last = len(text) + 1
        for start, end, new in sorted(set(self.edits), reverse=True):
            if end > last:
                self.house.problems.say(f"{self.path}: edits overlap at byte {start}")
                continue
            text = text[:start] + new.encode() + text[end:]
            last = start
        return text.decode()


_FROM = re.compile(r"from (skipjack(?:\.\w+)*) import ((?:\w+(?: as \w+)?)(?:, *\w+(?: as \w+)?)*)")
_DOTTED = re.compile(r"\bskipjack(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*)?")
_PATH = re.compile(r"(?<![\w/.])((?:src/)?skipjack/|)((?:\w+/)*\w+\.py)\b")
_FOLDER = re.compile(r"\bsrc/skipjack((?:/\w+)+)/?(?![\w./])")


def rewritten_text(house: House, text: str, folder: str = "") -> str:
    """Text with the new names of modules: statements of import, dotted names, paths."""
    if "skipjack" not in text and ".py" not in text:
        return text

    def imports(match: re.Match[str]) -> str:
        module, names = match[1], match[2]
        if module not in house.modules:
            return match[0]
        lines: dict[str, list[str]] = {}
        for one in names.split(","):
            name, _, asname = one.strip().partition(" as ")
            new = house.target(house.origin(module, name))
            known = house.modules[module]
            if known.is_package and name in known.offered and new[1] == name:
                door = (house.new_of[module], name)  # as readers know it
            else:
                door = _door_for_text(house, new)
            keep = asname or (name if door[1] != name else "")
            lines.setdefault(door[0], []).append(f"{door[1]} as {keep}" if keep else door[1])
        start = match.string.rfind("\n", 0, match.start()) + 1
        before = match.string[start : match.start()]
        joint = f"\n{before}" if not before.strip() and "\n" in match.string else "; "
        return joint.join(f"from {one} import {', '.join(all_)}" for one, all_ in lines.items())

    def dotted(match: re.Match[str]) -> str:
        whole, colon, name = match[0].partition(":")
        parts = whole.split(".")
        for count in range(len(parts), 1, -1):
            module = ".".join(parts[:count])
            if module not in house.modules:
                continue
            rest = parts[count:]
            if colon or rest:
                first = name if colon else rest[0]
                known = house.modules[module]
                if first in known.defined or first in known.imported:
                    new = house.target(house.origin(module, first))
                    if known.is_package and first in known.offered:
                        new = (module, new[1])  # still offered there
                    if colon:
                        return f"{new[0]}:{new[1]}"
                    return ".".join([new[0], new[1], *rest[1:]])
            return ".".join([house.new_of[module], *rest]) + (f":{name}" if colon else "")
        return match[0]

    def path(match: re.Match[str]) -> str:
        prefix, name = match[1], match[2]
        module = module_name(name)
        if not prefix and ("/" not in name or module not in house.modules):
            return match[0]
        new = house.new_of.get(module)
        if new is None or new == module:
            return match[0]
        return prefix + str(module_path(new, house.packages).relative_to(PACKAGE))

    text = _FROM.sub(imports, text)
    text = _DOTTED.sub(dotted, text)
    return _PATH.sub(path, text)


def _door_for_text(house: House, new: Symbol) -> Symbol:
    module, name = new
    if not name:
        parent, _, leaf = module.rpartition(".")
        return parent, leaf
    folder = house.folder_of(module)
    home = next((one for one in HOUSES if within(folder, one)), folder)
    return (home, name) if house.api[home].get(name) == new else new


# ---------------------------------------------------------------- merging


def merged(house: House, new: str, olds: list[str]) -> str:
    """The text of a module made of several."""
    problems = house.problems
    rewriters: dict[str, Rewriter] = {}
    bodies: dict[str, str] = {}
    for old in olds:
        module = house.modules[old]
        rewriter = Rewriter(house, module.path, module.source, old, new, house.folder_of(new))
        bodies[old] = rewriter.rewritten(keep_imports=False).strip("\n")
        rewriters[old] = rewriter
    order = in_order(house, olds)
    bodies = without_repeats(house, new, {old: bodies[old] for old in order})
    lines = []
    future = any(b"from __future__ import annotations" in house.modules[old].source for old in olds)
    own = ast.get_docstring(house.modules[olds[0]].tree, clean=True) or ""
    planned = house.plan.docs.get(new)
    if planned is None and len(olds) > 1:
        problems.say(f"{new}: a merged file needs a `doc` line")
    lines.append(docstring(planned or own))
    if future:
        lines.append("from __future__ import annotations\n")
    found = [one for rewriter in rewriters.values() for one in rewriter.imports]
    plain = [one.line for one in found if not one.for_types]
    typed = [one.line for one in found if one.for_types]
    check_bindings(house, new, bodies, [*plain, *typed])
    lines += dict.fromkeys(plain)
    known = imported_pairs(plain)
    typed = [line for line in dict.fromkeys(typed) if not imported_pairs([line]) <= known]
    if typed:
        lines.append("if TYPE_CHECKING:")
        lines += [f"    {line}" for line in typed]
    text = "\n".join(lines)
    for old in order:
        body = bodies[old]
        if not body.strip():
            continue
        about = ast.get_docstring(house.modules[old].tree, clean=True) or ""
        heading = ""
        if len(olds) > 1 and about and (old != olds[0] or planned):
            heading = comment(rewritten_text(house, about)) + "\n\n"
        text += f"\n\n\n{heading}{body}"
    return text.rstrip("\n") + "\n"


def imported_pairs(lines: list[str]) -> set[str]:
    found = set()
    for line in lines:
        node = ast.parse(line).body[0]
        module = node.module if isinstance(node, ast.ImportFrom) else ""
        assert isinstance(node, ast.Import | ast.ImportFrom)
        found.update(f"{module}:{alias.name}:{alias.asname}" for alias in node.names)
    return found


def docstring(text: str) -> str:
    text = text.strip()
    if '"""' in text or "\\" in text:
        return f"r'''{text}'''\n"
    if "\n" not in text and len(text) <= 94:
        return f'"""{text}"""\n'
    if "\n" not in text:
        head, _, tail = text.partition(". ")
        if tail and len(head) <= 95:
            return f'"""{head}.\n\n' + textwrap.fill(tail, 99) + '\n"""\n'
        return '"""' + textwrap.fill(text, 97) + '\n"""\n'
    return f'"""{text}\n"""\n'


def comment(text: str) -> str:
    wrapped = []
    for line in text.splitlines():
        wrapped += textwrap.wrap(line, 97, break_long_words=False) if len(line) > 97 else [line]
    return "\n".join(f"# {line}".rstrip() for line in wrapped)


def in_order(house: House, olds: list[str]) -> list[str]:
    """Parts, each after those that it needs when it is imported; otherwise as planned."""
    needs: dict[str, set[str]] = {}
    for old in olds:
        module = house.modules[old]
        found = set()
        for node in module.tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skipjack"):
                for alias in node.names:
                    found.add(house.origin(str(node.module), alias.name)[0])
        needs[old] = found & set(olds) - {old}
    order: list[str] = []
    while left := [old for old in olds if old not in order]:
        ready = [old for old in left if needs[old] <= set(order)]
        if not ready:
            house.problems.say(f"parts import each other: {', '.join(left)}")
            ready = left[:1]
        order.append(ready[0])
    return order


def without_repeats(house: House, new: str, bodies: dict[str, str]) -> dict[str, str]:
    """Parts without definitions that an earlier part has word for word; reports the others."""
    seen: dict[str, tuple[str, str]] = {}
    result = {}
    for old, body in bodies.items():
        lines = body.splitlines()
        drop: set[int] = set()
        tree = ast.parse(body)
        for index, node in enumerate(tree.body):
            for name in bound_names(node):
                text = ast.unparse(node)
                if name not in seen:
                    seen[name] = (old, text)
                elif seen[name][0] == old:
                    continue
                elif seen[name][1] == text:
                    last = node.end_lineno or node.lineno
                    following = tree.body[index + 1] if index + 1 < len(tree.body) else None
                    if (
                        isinstance(following, ast.Expr)
                        and isinstance(following.value, ast.Constant)
                        and isinstance(following.value.value, str)
                    ):
                        last = following.end_lineno or last
                    decorators = getattr(node, "decorator_list", [])
                    first = min([node.lineno, *(one.lineno for one in decorators)])
                    drop.update(range(first - 1, last))
                else:
                    house.problems.say(
                        f"{new}: {name} is defined in {seen[name][0]} and differently in {old}"
                    )
        result[old] = "\n".join(line for at, line in enumerate(lines) if at not in drop)
    return result


def check_bindings(house: House, new: str, bodies: dict[str, str], imports: list[str]) -> None:
    """Report names that the parts import and define, or import from several places."""
    bound: dict[str, str] = {}
    for line in imports:
        node = ast.parse(line).body[0]
        assert isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names:
            name = alias.asname or alias.name.split(".")[0]
            home = f"{getattr(node, 'module', '')}:{alias.name}"
            if isinstance(node, ast.Import) and not alias.asname:
                home = f":{name}"
            if bound.setdefault(name, home) != home:
                house.problems.say(f"{new}: {name} is imported from {bound[name]} and from {home}")
    for old, body in bodies.items():
        for node in ast.parse(body).body:
            for name in bound_names(node):
                if name in bound and not isinstance(node, ast.Try | ast.If):
                    house.problems.say(
                        f"{new}: {old} defines {name}, and a part imports {bound[name]}"
                    )


# ---------------------------------------------------------------- identifiers


def places_with_both(tree: ast.Module, old: str, new: str) -> list[str]:
    """Functions with two names, and classes with two attributes, that would be one."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            continue
        inner = list(ast.walk(node))
        if isinstance(node, ast.ClassDef):
            names = {one.attr for one in inner if isinstance(one, ast.Attribute)}
            names |= {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        else:
            names = {one.id for one in inner if isinstance(one, ast.Name)}
            names |= {one.arg for one in inner if isinstance(one, ast.arg)}
        if {old, new} <= names:
            found.append(f"{node.name} (line {node.lineno})")
    return found


def with_words(house: House, path: str, text: str) -> str:
    """Text of a Python file with the identifiers that the plan renames; needs Python 3.12 or later.

    Strings stay as they are, but for the names of attributes that `setattr` and its like are given.
    """
    words = {
        old: new
        for old, new, folders in house.plan.words
        if not folders or any(path == one or path.startswith(f"{one}/") for one in folders)
    }
    words = {old: new for old, new in words.items() if old in text}
    if not words:
        return text
    lines = text.splitlines(keepends=True)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    present = {token.string for token in tokens if token.type == tokenize.NAME}
    for old, new in words.items():
        if old in present and new in present and new not in words:
            for where in places_with_both(ast.parse(text), old, new):
                print(f"note: {path}: {where} has {new} already, where {old} becomes {new}")
    edits: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    attribute_calls = {"setattr", "getattr", "hasattr", "delattr", "attrgetter"}
    for index, token in enumerate(tokens):
        if token.type == tokenize.NAME and token.string in words:
            new = words[token.string]
            edits[token.start[0]].append((token.start[1], token.end[1], new))
        elif token.type == tokenize.STRING and token.string.strip("\"'") in words:
            near = {one.string for one in tokens[max(0, index - 8) : index]}
            old = token.string.strip("\"'")
            if near & attribute_calls:
                edits[token.start[0]].append((token.start[1], token.end[1], f'"{words[old]}"'))
            else:
                print(f"note: {path}:{token.start[0]} has the string {token.string}")
    for number, changes in edits.items():
        line = lines[number - 1]
        for start, end, new in sorted(changes, reverse=True):
            line = line[:start] + new + line[end:]
        lines[number - 1] = line
    return "".join(lines)


# ---------------------------------------------------------------- folders


def is_plain_init(module: Module) -> bool:
    for node in module.tree.body:
        plain = (
            isinstance(node, ast.Import | ast.ImportFrom)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            or is_type_checking(node)
            or (
                isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0])
                in ("__all__", "(__getattr__, __dir__)", "__getattr__, __dir__", "__version__")
            )
        )
        if not plain:
            return False
    return True


def init_text(house: House, package: str) -> str:
    """An `__init__`: docstring, and what the folder offers."""
    module = house.modules.get(package)
    about = house.plan.packages.get(package)
    if about is None:
        about = (ast.get_docstring(module.tree, clean=True) or "") if module else ""
        about = rewritten_text(house, about)
    offered = dict(house.api[package])
    text = docstring(about) if about else ""
    if package != "skipjack" and not about:
        house.problems.say(f"{package} needs a `package` line with a docstring")
    if module is not None and not is_plain_init(module) and package not in house.code_moved:
        return code_init(house, module, offered)
    modules = {name for name, symbol in offered.items() if not symbol[1]}
    homes: dict[str, list[str]] = defaultdict(list)
    for name, (home, inner) in sorted(offered.items()):
        if name in modules:
            continue
        if inner != name:
            house.problems.say(f"{package} offers {inner} of {home} as {name}: choose one name")
        folder = house.folder_of(home)
        if folder != package and package not in HOUSES:  # as that folder offers it
            house.offer(folder, name, (home, inner))
            home = folder
        homes[home].append(name)
    if not offered:
        return text or '"""Skipjack."""\n'
    version = '\n__version__ = "0.1.0"\n' if package == "skipjack" else ""
    names = sorted([*offered, *(["__version__"] if version else [])])
    listing = "".join(f'    "{name}",\n' for name in names)
    text += "\n"
    if homes:
        text += "from typing import TYPE_CHECKING\n\nfrom skipjack.lazy_names import lazy\n\n"
        text += "if TYPE_CHECKING:\n"
        for home, inner_names in sorted(homes.items()):
            text += f"    from {home} import {', '.join(inner_names)}\n"
    text += f"{version}\n__all__ = [\n{listing}]\n"
    if homes:
        text += "\n__getattr__, __dir__ = lazy(\n    __name__,\n    {\n" + table(package, homes)
        text += "    },\n)\n"
    return text


def table(package: str, homes: dict[str, list[str]]) -> str:
    text = ""
    for home, names in sorted(homes.items()):
        short = home.removeprefix(f"{package}.") if within(home, package) else home
        parts = textwrap.wrap(" ".join(names), 82)
        if len(parts) == 1 and len(short) + len(parts[0]) < 85:
            text += f'        "{short}": "{parts[0]}",\n'
        else:
            listed = "".join(f'            "{part} "\n' for part in parts)
            text += f'        "{short}": (\n{listed}        ),\n'
    return text


def code_init(house: House, module: Module, offered: dict[str, Symbol]) -> str:
    """An `__init__` with code of its own keeps it; what it does not bind yet is loaded lazily."""
    package = module.name
    rewriter = Rewriter(house, module.path, module.source, package, package, package)
    text = rewriter.rewritten(keep_imports=True)
    tree = ast.parse(text)
    bound = {name for node in tree.body for name in bound_names(node)}
    missing = {name: symbol for name, symbol in offered.items() if name not in bound and symbol[1]}
    lines = text.splitlines()
    listing = "__all__ = [\n" + "".join(f'    "{name}",\n' for name in sorted(offered)) + "]"
    for node in tree.body:
        if "__all__" in bound_names(node):
            lines[node.lineno - 1 : node.end_lineno] = [listing]
            break
    else:
        if offered:
            last = max(
                node.end_lineno or 0
                for node in tree.body
                if isinstance(node, ast.Import | ast.ImportFrom)
            )
            lines.insert(last, f"\n{listing}")
    if missing:
        if any("__getattr__" in bound_names(node) for node in tree.body):
            house.problems.say(
                f"{package}: its __init__ has a __getattr__ and must offer {sorted(missing)}"
            )
        else:
            homes: dict[str, list[str]] = defaultdict(list)
            for name, (home, _) in sorted(missing.items()):
                homes[home].append(name)
            at = next(i for i, line in enumerate(lines) if line.startswith(("from ", "import ")))
            typed = "if TYPE_CHECKING:\n" + "".join(
                f"    from {home} import {', '.join(names)}\n"
                for home, names in sorted(homes.items())
            )
            first = next(i for i, line in enumerate(lines) if line.startswith("__all__"))
            lines.insert(first, typed)
            lines[at:at] = []
            starts = (i for i, line in enumerate(lines) if line.startswith("from __future__"))
            lines.insert(
                next(starts, at - 1) + 1,
                "from typing import TYPE_CHECKING\nfrom skipjack.lazy_names import lazy",
            )
            loading = "\n__getattr__, __dir__ = lazy(\n    __name__,\n    {\n"
            lines.append(loading + table(package, homes) + "    },\n)")
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------- the whole


def other_files() -> Iterator[Path]:
    for folder in OTHERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not {".cache", "out", "__pycache__"} & set(path.parts) and path.name != "rooms.py":
                yield path


def text_files() -> Iterator[Path]:
    for name in TEXTS:
        path = ROOT / name
        if path.is_file():
            yield path
        else:
            yield from sorted(
                one
                for ending in ("*.md", "*.toml", "*.yaml", "*.yml", "*.sh")
                for one in path.rglob(ending)
            )


def needed(house: House) -> dict[str, str]:
    """New texts of all modules but `__init__`s; fills in what folders offer."""
    plan = house.plan
    for name, module in house.modules.items():
        if not module.is_package or name not in house.packages:
            continue
        for offered in module.offered:
            origin = house.origin(name, offered)
            if offered == "__version__":
                continue
            if origin[0] == name and name not in house.code_moved:
                house.api[name][offered] = (name, house.target(origin)[1])
                continue
            new = house.target(origin)
            house.offer(name, new[1] or offered, new)
    texts: dict[str, str] = {}
    for new, olds in plan.parts.items():
        if all(old in house.modules for old in olds):
            texts[new] = merged(house, new, olds)
    for name, module in house.modules.items():
        if name in house.taken_out or module.is_package:
            continue
        rewriter = Rewriter(house, module.path, module.source, name, name, house.folder_of(name))
        texts[name] = rewriter.rewritten(keep_imports=True)
        if name in plan.docs:
            house.problems.say(f"{name}: a `doc` line of a file without a `file` line")
    return texts


def report_repeated_classes(house: House, texts: dict[str, str]) -> None:
    """Public classes whose name several folders would define."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, text in texts.items():
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(house.folder_of(name))
    for name, folders in sorted(found.items()):
        if len(folders) > 1:
            house.problems.say(f"class {name} would be in {', '.join(sorted(folders))}")


def report_cycles(house: House, texts: dict[str, str]) -> None:
    """Folders of a package that would import each other; lazy imports count."""
    edges: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, text in texts.items():
        here = house.folder_of(name)
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("skip"):
                continue
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                while module not in house.packages:
                    module = module.rpartition(".")[0]
                if module != here and module != "skipjack" and here != "skipjack":
                    edges[here][module].append(f"{name} -> {node.module}:{alias.name}")
    for group in strongly_connected(edges):
        house.problems.say(f"folders import each other: {', '.join(sorted(group))}")
        for one in sorted(group):
            for other, examples in sorted(edges[one].items()):
                if other in group:
                    few = "; ".join(examples[:4])
                    house.problems.say(f"    {one} -> {other}: {len(examples)}: {few}")


def strongly_connected(edges: dict[str, dict[str, list[str]]]) -> list[set[str]]:
    """Groups of two or more that reach each other."""
    reach: dict[str, set[str]] = {}
    for start in list(edges):
        seen: set[str] = set()
        left = [start]
        while left:
            for other in edges.get(left.pop(), {}):
                if other not in seen:
                    seen.add(other)
                    left.append(other)
        reach[start] = seen
    groups: list[set[str]] = []
    for start, seen in reach.items():
        group = {other for other in seen if start in reach.get(other, set())}
        if len(group) > 1 and group not in groups:
            groups.append(group)
    return groups


def carry_out(house: House, write: bool) -> None:
    texts = needed(house)
    inits: dict[str, str] = {}
    for _ in range(4):  # until packages of packages offer all that they are asked for
        for package in sorted(house.packages):
            inits[package] = init_text(house, package)
    for name, text in texts.items():
        if len(text.splitlines()) > MOST_LINES and len(house.plan.parts.get(name, [])) > 1:
            house.problems.say(f"{name} would have {len(text.splitlines())} lines")
    counts: dict[str, int] = defaultdict(int)
    for name in texts:
        counts[name.rpartition(".")[0]] += 1
    for package in house.packages:
        if counts[package] + 1 > MOST_FILES:
            house.problems.say(f"{package} would have {counts[package] + 1} files")
    for one in (texts, inits):
        for name, text in one.items():
            where = module_path(name, house.packages).relative_to(ROOT)
            one[name] = with_words(house, str(where), text)
    report_repeated_classes(house, texts)
    report_cycles(house, texts)
    if not write:
        print(f"{len(house.modules)} files, {len(texts) + len(inits)} afterwards")
        by_package: dict[str, int] = defaultdict(int)
        for name in [*texts, *inits]:
            by_package[[*name.split("."), ""][1]] += 1
        print(", ".join(f"{name} {count}" for name, count in sorted(by_package.items())))
        return
    rewritten: dict[Path, str] = {}
    for path in other_files():
        rewriter = Rewriter(house, path, path.read_bytes(), "", "", "")
        rewritten[path] = rewriter.rewritten(keep_imports=True)
    for path in list(rewritten):
        rewritten[path] = with_words(house, str(path.relative_to(ROOT)), rewritten[path])
    for path in text_files():
        old = path.read_text("utf-8")
        rewritten[path] = rewritten_text(house, old)
    for path in [module.path for module in house.modules.values()]:
        path.unlink()
    for name, text in [*texts.items(), *inits.items()]:
        path = module_path(name, house.packages)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for path, text in rewritten.items():
        if path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
    for old_test, new_test in house.plan.tests.items():
        (ROOT / new_test).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / old_test).rename(ROOT / new_test)
    for folder in sorted(PACKAGE.rglob("*"), reverse=True):
        if folder.is_dir() and folder.name != "__pycache__":
            left = [one for one in folder.iterdir() if one.name != "__pycache__"]
            if not left:
                for cached in (folder / "__pycache__").glob("*"):
                    cached.unlink()
                if (folder / "__pycache__").exists():
                    (folder / "__pycache__").rmdir()
                folder.rmdir()


TABLE_HEAD = """# Old and new names

Modules, classes and other names that changed in November 2026, for branches and plug-ins that were
written before. Import paths that the documentation showed still work, with a `DeprecationWarning`
that names the new one (`src/skipjack/earlier_paths.py`). The tables are printed by
`tools/rooms.py table tools/plans/*.plan`, from the plans that it carried out. The plans
also have the names of attributes, parameters and variables.

## Modules

Paths are relative to `src/skipjack`.

| before | now |
| --- | --- |"""


def print_table(plan: Plan) -> None:
    """Old and new names, for whoever has a branch or a plug-in from before."""
    print(TABLE_HEAD)
    moved = {old: new for new, olds in plan.parts.items() for old in olds if old != new}
    between = set(moved.values()) & set(moved)
    moved = {old: moved.get(new, new) for old, new in moved.items() if old not in between}
    for old, new in sorted(moved.items()):
        cells = (name.removeprefix("skipjack.").replace(".", "/") for name in (old, new))
        print("| {} | {} |".format(*(f"`{cell}`" for cell in cells)))
    print("\n## Classes, functions, constants\n\n| module before | name before | now |")
    print("| --- | --- | --- |")
    for (module, name), new in sorted(plan.names.items()):
        if name.startswith("_"):
            continue
        where = module.removeprefix("skipjack.").replace(".", "/")
        print(f"| `{where}` | `{name}` | `{new}` |")


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in ("check", "apply", "table"):
        sys.exit(__doc__)
    problems = Problems()
    plan = read_plans(sys.argv[2:], problems)
    if sys.argv[1] == "table":
        print_table(plan)
        return
    house = House(plan, problems)
    carry_out(house, write=sys.argv[1] == "apply")
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(f"{len(problems)} problems")


if __name__ == "__main__":
    main()
