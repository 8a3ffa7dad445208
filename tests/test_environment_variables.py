"""Environment variables are read in `skipjack.settings`, where each is declared once."""

import ast
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import skipjack
from skipjack import settings
from skipjack.errors import UsageError
from skipjack.settings import MIOPEN_TIMEOUT_S, VARIABLES, variables

ROOT = Path(skipjack.__file__).parent
OTHERS_NAMES = {
    "MKL_NUM_THREADS": "MKL's own",
    "PATH": "where programs are",
    "PYTHONIOENCODING": "Python's own, for output",
    "PYTHONUTF8": "Python's own, for output",
    "SSH_AUTH_SOCK": "ssh's agent",
    "SSH_CONNECTION": "set by sshd: the address that this machine was reached by",
}
"""Variables of other programs that may be read where they are needed."""
BY_COMPUTED_NAME = {
    "autoload.py": "PyTorch calls it in every program, where it loads nothing unless it is set",
    "fleet/images/commands.py": "the user names the variable of a build's secret",
    "sweep/commands/builder.py": "variables of compilers are part of a build's identity",
}
"""Files that read variables whose names are no literals."""
WHOLE = {
    "processes.py": "copied to workers",
    "cli/tune.py": "AutoTune's variables, translated to ours",
    "cli/program_launch.py": "copied to the program that is started",
    "execute/commands.py": "copied to commands",
    "fleet/engines/ray_driver.py": "copied to Ray's processes",
    "fleet/images/container_engine.py": "copied to the container engine",
    "fleet/images/workers.py": "names of variables that containers are given",
    "fleet/machines/node.py": "copied to Ray's processes",
    "fleet/slurm/ray_node.py": "copied to Ray's processes",
    "integrations/context.py": "AutoTune's variables, translated to ours",
    "plans/execution.py": "copied to the steps of a plan",
    "runtime/bank_lookup.py": "a hit compares three variables undecoded: reading takes longer",
    "runtime/process/program.py": "variables of launchers",
    "solvers/miopen/environment.py": "copied to MIOpenDriver",
    "solvers/miopen/solver.py": "PATH, or that of another environment",
    "sweep/commands/builder.py": "variables of compilers are part of a build's identity",
    "sweep/commands/command.py": "copied to commands",
    "testing/miopen_driver.py": "a stand-in program with variables of its own",
}
"""Files that use the environment as a whole."""


@dataclass(frozen=True)
class Use:
    """How a piece of code uses the environment."""

    line: int
    how: str
    """``literal``, ``computed``, ``whole`` or ``write``."""
    name: str = ""


def uses(source: str) -> Iterator[Use]:
    tree = ast.parse(source)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            taken = {name.name for name in node.names}
            yield from [Use(node.lineno, "whole")] if {"environ", "getenv"} & taken else []
        if not isinstance(node, ast.Attribute) or ast.unparse(node.value) != "os":
            continue
        if node.attr == "getenv":
            yield _read(node.lineno, above[node].args[0])  # type: ignore[attr-defined]
        elif node.attr in ("environ", "environb"):
            yield _use(node, above)


def _use(node: ast.Attribute, above: dict[ast.AST, ast.AST]) -> Use:
    around = above[node]
    match around:
        case ast.Subscript(slice=key, ctx=ast.Load()):
            return _read(node.lineno, key)
        case ast.Subscript() | ast.Attribute(attr="update" | "pop" | "setdefault"):
            return Use(node.lineno, "write")
        case ast.Attribute(attr="get"):
            call = above[around]
            return _read(node.lineno, call.args[0] if isinstance(call, ast.Call) else None)
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()]):
            return _read(node.lineno, key)
    return Use(node.lineno, "whole")


def _read(line: int, key: ast.expr | None) -> Use:
    if isinstance(key, ast.Constant):
        return Use(line, "literal", str(key.value))
    return Use(line, "computed")


def complaints(file: str, source: str) -> list[str]:
    """What reads the environment beside `settings`."""
    return [
        f"{file}:{use.line}: declare the variable in skipjack.settings and read it there"
        for use in uses(source)
        if (use.how == "literal" and use.name not in OTHERS_NAMES)
        or (use.how == "computed" and file not in BY_COMPUTED_NAME)
        or (use.how == "whole" and file not in WHOLE)
    ]


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(ROOT.rglob("*.py")):
        if not path.is_relative_to(Path(settings.__file__).parent):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_variables_are_read_in_settings_alone() -> None:
    found = [(file, source) for file, source in sources() if re.search("environ|getenv", source)]
    assert not [one for file, source in found for one in complaints(file, source)]


@pytest.mark.parametrize(
    "code",
    [
        'os.environ.get("SKIPJACK_CORE")',
        'os.environ["SKIPJACK_CORE"]',
        '"SKIPJACK_CORE" in os.environ',
        'os.getenv("SKIPJACK_CORE")',
        "os.environ.get(NAME)",
        "os.environ[NAME]",
        "get = os.environ.get",
        "dict(os.environ)",
        "from os import environ",
    ],
)
def test_each_way_to_read_one_is_seen(code: str) -> None:
    assert complaints("tuning/new.py", f"import os\n{code}\n")


def test_the_exceptions_are_needed() -> None:
    found = {file: list(uses(source)) for file, source in sources() if "environ" in source}
    for how, files in (("computed", BY_COMPUTED_NAME), ("whole", WHOLE)):
        used = {file for file, ones in found.items() if how in {one.how for one in ones}}
        assert set(files) <= used
    assert set(OTHERS_NAMES) == {one.name for ones in found.values() for one in ones if one.name}


def test_names_elsewhere_are_of_declared_variables() -> None:
    declared = {one.name for one in VARIABLES}
    literal = re.compile(r"[\"'](SKIPJACK_[A-Z_]*[A-Z])[\"']")
    assert not [
        f"{file}: {name}"
        for file, source in sources()
        for name in literal.findall(source)
        if name not in declared
    ]


def test_each_variable_is_declared_once_with_its_meaning() -> None:
    names = [one.name for one in VARIABLES]
    assert len(names) == len(set(names))
    body = ast.parse(Path(variables.__file__).read_text(encoding="utf-8")).body
    explained = [
        next_.value.value
        for one, next_ in itertools.pairwise(body)
        if isinstance(one, ast.Assign)
        and ast.unparse(one.value).startswith("Variable(")
        and isinstance(next_, ast.Expr)
        and isinstance(next_.value, ast.Constant)
    ]
    assert len(explained) == len(names)
    assert all(str(sentence).endswith(".") for sentence in explained)


def test_a_variable_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIOPEN_TIMEOUT_S.name, raising=False)
    assert MIOPEN_TIMEOUT_S.value() is None
    monkeypatch.setenv(MIOPEN_TIMEOUT_S.name, "90")
    assert MIOPEN_TIMEOUT_S.value() == 90.0
    assert MIOPEN_TIMEOUT_S.text({}) == ""


def test_a_bad_value_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIOPEN_TIMEOUT_S.name, "soon")
    with pytest.raises(UsageError) as caught:
        MIOPEN_TIMEOUT_S.value()
    assert str(caught.value) == "SKIPJACK_MIOPEN_TIMEOUT_S is 'soon'; write a number of seconds"
