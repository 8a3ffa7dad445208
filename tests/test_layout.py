"""Arrows point inwards: which package may import which, and what importing Skipjack costs."""

import ast
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import skipjack

ROOT = Path(skipjack.__file__).parent

BELOW: dict[str, set[str]] = {
    "errors": set(),
    "json_formats": set(),
    "lazy_names": set(),
    "earlier_paths": set(),
    "reading": {"errors", "lazy_names"},
    "processes": set(),
    "core": {"errors"},
    "operations": {"core", "errors", "plugins"},
    "native": {"core", "errors", "processes", "settings"},
    "interop": {"core", "errors", "operations", "storage", "gpu"},
    "search": {"core", "errors", "models", "plugins"},
    "gpu": {"core", "errors"},
    "devices": {"core", "errors", "native", "gpu"},
    "settings": {"errors"},
    "lists": {"errors"},
    "storage": {"errors", "settings", "processes"},
    "solvers": {
        *("core", "errors", "native", "operations", "gpu", "interop", "settings"),
        "plugins",  # a plug-in's kernels are in the module that it was loaded as
        "processes",  # TVM tunes in a separate process
    },
    "ledger": {"core", "errors", "storage"},
    "bank": {"core", "errors", "json_formats", "ledger", "storage"},
    "plugins": {"errors", "settings"},
    "trace": {"storage"},
    "interrupt": set(),
    "models": {"core", "errors", "operations", "settings", "storage", "native"},
    "execute": {
        *("processes", "core", "errors", "native", "operations", "solvers", "gpu"),
        *("plugins", "settings"),
        *("ledger", "storage"),  # build workers look whether a source is known
    },
    "runtime": {
        "models",
        *("core", "errors", "native", "gpu", "devices", "bank", "storage", "settings", "plugins"),
        *("operations", "solvers", "execute", "ledger"),  # when a kernel is not known yet
        "interop",  # when a problem is written as a command of MIOpenDriver
        "processes",
    },
    "tuning": {
        *("runtime", "json_formats", "models"),
        *("core", "errors", "native", "operations", "solvers", "search"),
        *("execute", "ledger", "bank", "storage", "settings", "plugins", "trace"),
        *("interrupt", "gpu", "devices"),
    },
    "integrations": {
        *("core", "errors", "native", "operations", "solvers", "search", "execute", "gpu"),
        *("ledger", "bank", "storage", "settings", "plugins", "trace", "interrupt", "tuning"),
        *("devices", "runtime", "processes"),
    },
    "autoload": {"integrations"},
    "context": {"integrations"},
    "sweep": {
        *("core", "errors", "native", "search", "execute", "ledger", "interop"),
        *("storage", "settings"),
    },
    "fleet": {
        *("", "core", "errors", "native", "operations", "solvers", "search", "execute", "ledger"),
        *("bank", "storage", "settings", "plugins", "trace", "interrupt", "tuning", "interop"),
        *("gpu", "devices", "processes", "runtime"),
    },
    "learn": {
        *("core", "errors", "native", "operations", "solvers", "search", "execute"),
        *("ledger", "bank", "storage", "settings", "plugins", "trace", "interrupt", "devices"),
        *("gpu", "processes", "runtime", "tuning", "fleet", "lists", "interop", "models"),
    },
    "loops": {"core", "errors", "learn"},
    "torch": {"integrations"},
    "app": {
        *("core", "errors", "native", "operations", "solvers", "search", "gpu", "devices"),
        *("bank", "ledger", "storage", "settings", "plugins", "interop", "interrupt"),
        *("tuning", "runtime", "sweep", "fleet", "integrations", "learn", "models"),
    },
    "report": {
        *("app", "integrations", "interop", "json_formats"),
        *("core", "errors", "native", "operations", "solvers", "search", "gpu"),
        *("execute", "ledger", "bank", "storage", "settings", "tuning", "sweep", "fleet"),
        *("runtime", "learn", "plugins"),
    },
    "web": {
        *("", "app", "report", "core", "errors", "settings"),
        *("fleet", "bank", "sweep", "learn"),  # classes of records, and states of jobs
    },
    "plans": {"processes", "core", "errors", "storage", "interrupt"},
    "__main__": {"cli"},
    "cli": {
        *("", "app", "core", "errors", "native", "operations", "solvers", "search"),
        *("ledger", "bank", "storage", "settings", "plugins", "tuning", "report", "interop"),
        *("sweep", "interrupt", "fleet", "gpu", "devices", "integrations", "lists", "plans"),
        *("runtime", "learn", "loops", "autoload", "torch", "web"),
    },
    "testing": {
        *("core", "errors", "search", "operations", "native", "solvers", "execute", "gpu"),
        *("interop", "plugins", "tuning", "ledger", "bank", "storage", "trace", "fleet"),
        "processes",
    },
    "": {"runtime", "tuning", "integrations", "lazy_names", "earlier_paths"},
}
"""For every package or module of ours, those that it may import; "" is `skipjack` itself."""

for _name, _below in BELOW.items():
    if "errors" in _below and _name != "reading":
        _below.add("reading")  # a check of data and the error that says so go together
        _below.add("lazy_names")  # any package may hand out names that it loads later

INSIDE: dict[str, set[str]] = {
    "solvers/cpu/nest": {"core", "errors", "reading", "lazy_names"},
    # Many environments start at once: no compiler, no engine.
    "learn/loops": {
        *("core", "errors", "reading", "native", "operations", "solvers", "settings", "storage"),
        "lazy_names",
    },
    # What plays and estimates needs no engine either.
    "learn/costs": {"core", "errors", "reading", "lazy_names", "learn", "solvers", "models"},
    "learn/policy": {
        *("core", "errors", "reading", "lazy_names", "learn", "operations", "solvers", "search"),
    },
}
"""For folders that may import less than their package: what they may, besides themselves."""

MOST_FILES = 20
MOST_LINES = 400
LONG_SCRIPTS: frozenset[str] = frozenset()
"""Files that may be longer: training scripts that are read from top to bottom."""

HOUSES = ("fleet/store",)
"""Folders whose `__init__` is the API of their sub-folders too."""

HEAVY = ("llvmlite", "numpy", "torch", "triton", "ray", "sqlalchemy", "yaml", "starlette", "jinja2")


def ours(path: Path) -> Iterator[str]:
    """Names of our modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == "skipjack")


def package(name: str) -> str:
    """``skipjack.core.device`` belongs to ``core``, ``skipjack.__version__`` to skipjack itself."""
    first = [*name.split("."), "", ""][1]
    return first if first in BELOW else ""


def home(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_what_lies_below_it(path: Path) -> None:
    here = home(path)
    assert here in BELOW, f"{here} is new: say in this file what it may import"
    allowed = BELOW[here] | {here}
    beyond = {name for name in ours(path) if package(name) not in allowed}
    assert not beyond


@pytest.mark.parametrize("folder", INSIDE)
def test_a_folder_imports_only_what_lies_below_it(folder: str) -> None:
    own = f"skipjack.{folder.replace('/', '.')}"
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths, f"{folder} is gone: take it out of this file"
    names = {name for path in paths for name in ours(path) if not f"{name}.".startswith(f"{own}.")}
    assert not {name for name in names if package(name) not in INSIDE[folder]}


def test_the_table_has_no_cycle_and_no_ghosts() -> None:
    assert {home(path) for path in FILES} == set(BELOW)
    # The package itself hands out `tuning` lazily; only the command line asks it for the version.
    done: set[str] = set()
    while left := {name for name in BELOW if name not in done}:
        free = {name for name in left if BELOW[name] <= done}
        assert free, f"these import each other: {sorted(left)}"
        done |= free


def test_nothing_imports_the_command_line_or_the_fakes() -> None:
    for name, allowed in BELOW.items():
        assert "cli" not in allowed or name == "__main__", name
        assert "testing" not in allowed, name


def test_no_file_has_a_name_without_a_purpose() -> None:
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert not [path for path in FILES if path.stem in vague]


def folder_of(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix().removeprefix(".")


FOLDERS = {folder_of(path) for path in FILES}


def reached(name: str) -> tuple[str, str]:
    """The folder that an import is from, and the module in it; none where it is the `__init__`."""
    parts = name.split(".")[1:]
    deepest = max(at for at in range(len(parts) + 1) if "/".join(parts[:at]) in FOLDERS)
    folder, rest = "/".join(parts[:deepest]), parts[deepest:]
    is_module = bool(rest) and (ROOT / folder / f"{rest[0]}.py").exists()
    return folder, rest[0] if is_module else ""


@cache
def offered(folder: str) -> set[str]:
    """Names in the `__all__` of a folder."""
    for node in ast.parse((ROOT / folder / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def modules_past_folders(path: Path) -> set[str]:
    """Modules that a file imports past the `__init__` of a folder that it is not in."""
    here = f"{folder_of(path)}/"
    found = set()
    for folder, module in map(reached, ours(path)):
        for house in HOUSES:
            if folder.startswith(f"{house}/"):
                folder, module = house, "/".join([folder.removeprefix(f"{house}/"), module])
        if module and folder and not here.startswith(f"{folder}/"):
            found.add(f"{folder}/{module}")
    return {one for one in found if one.rpartition("/")[2] not in offered(one.rpartition("/")[0])}


def names_loaded_later(tree: ast.Module) -> dict[str, str]:
    """The names in the table of a folder's `lazy`, with their modules."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("lazy("):
            assert isinstance(node.value, ast.Call)
            table = ast.literal_eval(node.value.args[1])
            return {name: home for home, names in table.items() for name in names.split()}
    return {}


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_what_a_folder_loads_later_is_what_type_checkers_see(folder: str) -> None:
    tree = ast.parse((ROOT / folder / "__init__.py").read_text())
    later = names_loaded_later(tree)
    own = f"skipjack.{folder.replace('/', '.')}".rstrip(".")
    seen = {
        alias.name: str(node.module).removeprefix(f"{own}.")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert later == seen
    assert set(later) <= offered(folder)


def repeated_names() -> dict[str, set[str]]:
    """Public classes that several folders define, and which do."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(folder_of(path) or ".")
    return {name: folders for name, folders in found.items() if len(folders) > 1}


def test_a_folder_has_at_most_twenty_files() -> None:
    files = Counter(map(folder_of, FILES))
    large = {folder: count for folder, count in files.items() if count > MOST_FILES}
    assert not large, "make sub-folders, or merge files that are sections of their only importer"


def test_a_file_has_at_most_four_hundred_lines() -> None:
    lines = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in FILES}
    long = {name for name, count in lines.items() if count > MOST_LINES}
    assert long == LONG_SCRIPTS


def test_other_folders_import_from_the_init_of_a_folder() -> None:
    past = {
        path.relative_to(ROOT).as_posix(): found
        for path in FILES
        if (found := modules_past_folders(path))
    }
    assert not past, "import from the folder, whose __init__ is its API, and not from its modules"


@pytest.mark.parametrize("name", ["fleet", "solvers", "sweep"])
def test_folders_inside_a_package_do_not_import_each_other(name: str) -> None:
    below: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        here = folder_of(path)
        if home(path) == name and path.name != "__init__.py":
            below[here].update(folder for folder, _ in map(reached, ours(path)) if folder != here)
    done: set[str] = set()
    while left := below.keys() - done:
        free = {folder for folder in left if not below[folder] & left}
        assert free, {folder: sorted(below[folder] & left) for folder in sorted(left)}
        done |= free


def test_a_public_class_name_is_defined_in_one_folder() -> None:
    assert not repeated_names(), "choose a name that says which one it is"


def modules_after(code: str) -> set[str]:
    listing = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", listing], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def loaded_after(code: str) -> set[str]:
    return {name.split(".")[0] for name in modules_after(code)}


def test_importing_skipjack_loads_nothing_heavy() -> None:
    assert not loaded_after("import skipjack") & set(HEAVY)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import skipjack.cli.main as main\n"
        "sys.argv = ['skipjack', '--help']\n"
        "try: main.run()\n"
        "except SystemExit: pass"
    )
    assert not loaded_after(code) & set(HEAVY)


def test_importing_schedules_loads_little_of_ours_and_nothing_heavy() -> None:
    modules = modules_after("import skipjack.solvers.cpu.nest")
    assert not {name.split(".")[0] for name in modules} & set(HEAVY)
    ours = {name for name in modules if name.startswith("skipjack.")}
    whole = ("skipjack.core", "skipjack.errors", "skipjack.reading", "skipjack.solvers.cpu.nest")
    within = tuple(f"{name}." for name in whole)
    beyond = {name for name in ours if name not in whole and not name.startswith(within)}
    assert beyond == {
        *("skipjack.earlier_paths", "skipjack.lazy_names"),
        *("skipjack.solvers", "skipjack.solvers.cpu"),
    }


def test_a_policy_proposes_schedules_without_torch_and_without_the_engine() -> None:
    code = """
from skipjack.learn.policy import propose
from skipjack.native import describe
from skipjack.operations import parse
assert propose(parse("matmul:48x40x56"), describe("haswell/1"), 2)
"""
    modules = modules_after(code)
    assert not {name.split(".")[0] for name in modules} & {"torch", "gymnasium"}
    assert "skipjack.tuning" not in modules
