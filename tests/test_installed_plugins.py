"""Plug-ins of installed distributions are loaded on use, and broken ones break nothing."""

import logging
import re
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from skipjack import operations, plugins, search, solvers
from skipjack.errors import ProblemError, UsageError
from skipjack.fleet.release import formats
from skipjack.plugins import EntryPoints
from skipjack.report.doctor import HealthCheck, plugin_findings
from skipjack.search import registry as search_registry

PAGE = Path(__file__).parents[1] / "docs" / "plug-ins.md"
MODULE = """
from dataclasses import replace

from skipjack import operations
from skipjack.fleet.release.formats import ExportFormat
from skipjack.solvers.vendor.cpu import NumpySolver


class TinyNumpy(NumpySolver):
    name = "tiny_numpy"


class Csv(ExportFormat):
    name = "csv"


Halve = replace(operations.get("neg"), name="halve", step="neg")


def first_few(ask):
    yield ask.defaults
"""


def install(folder: Path, project: dict[str, object], module: str) -> None:
    """What pip leaves of a distribution with one module."""
    name, version = str(project["name"]), project["version"]
    file_name = name.replace("-", "_")
    info = folder / f"{file_name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = []
    for group, entries in groups.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / f"{file_name}.py").write_text(module)


def documented() -> dict[str, object]:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    project = tomllib.loads(text)["project"]
    assert isinstance(project, dict)
    return project


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of `sys.path` with the distribution of the page; registries as before at the end."""
    folder = tmp_path / "site"
    install(folder, documented(), MODULE)
    for registry, known in (
        (operations.registry, "_known"),
        (solvers.registry, "_known"),
        (search_registry, "_FACTORIES"),
        (sys.modules[formats.get.__module__], "_known"),
    ):
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))
    for one in (operations, solvers, search, formats):
        monkeypatch.setattr(one.installed(), "_outcomes", {})
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield folder
    for name in ("skipjack_tiny", "skipjack_broken"):
        sys.modules.pop(name, None)


def broken(folder: Path, module: str, **groups: dict[str, str]) -> None:
    entries = {f"skipjack.{group}": names for group, names in groups.items()}
    install(folder, {"name": "skipjack-broken", "version": "0.1", "entry-points": entries}, module)


def test_every_kind_of_the_documented_distribution_is_found_by_its_name(site: Path) -> None:
    assert operations.get("halve").name == "halve"
    assert solvers.find_solver("tiny_numpy").name == "tiny_numpy"
    assert search.check_name("first_few") == "first_few"
    assert formats.get("csv").name == "csv"
    groups = documented()["entry-points"]
    assert isinstance(groups, dict) and tuple(groups) == plugins.GROUPS


def test_lists_have_installed_plug_ins(site: Path) -> None:
    assert "halve" in operations.names()
    assert "tiny_numpy" in solvers.names()
    assert "first_few" in search.names()
    assert "csv" in formats.names()


def test_nothing_is_loaded_for_what_comes_with_skipjack(site: Path) -> None:
    code = (
        "import sys; from skipjack import operations, search, solvers\n"
        "operations.parse('matmul:8x8x8'), solvers.find_solver('nest'), search.check_name('auto')\n"
        "print('importlib.metadata' in sys.modules, 'skipjack_tiny' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_help_loads_no_plug_in(site: Path) -> None:
    (site / "skipjack_tiny.py").write_text("raise SystemExit('loaded')")
    words = [sys.executable, "-m", "skipjack.cli.main", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "loaded" not in done.stdout + done.stderr


def test_a_tuning_uses_an_installed_operation_and_searcher(site: Path, user_dir: Path) -> None:
    words = ["tune", "halve:64", "--searcher", "first_few", "--budget", "1", "--json"]
    command = [sys.executable, "-m", "skipjack.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "halve:64" in done.stdout


@pytest.mark.parametrize(
    ("module", "failure"),
    [
        ("import not_there", "cannot be imported: No module named 'not_there'"),
        ("raise SystemExit(3)", "ends the program when it is imported"),
        ("Third = 1 / 0", "cannot be imported: division by zero"),
        ("class Third: name = 'fourth'", "its operation is named 'fourth'"),
        ("class Third: name = 'third'", "operation"),
        ("Third = 5", "it is 5; name a class of operations, or an instance"),
        (
            "class Third:\n    def __init__(self): raise RuntimeError('boom')",
            "its operation Third cannot be created: RuntimeError: boom",
        ),
    ],
)
def test_a_broken_plug_in_is_left_out_with_one_warning(
    site: Path, module: str, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken(site, module, operations={"third": "skipjack_broken:Third"})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert "third" not in operations.names()
            assert operations.get("halve").name == "halve", "the others work"
            with pytest.raises(ProblemError, match="unknown operation 'third'"):
                operations.get("third")
    (record,) = caplog.records
    assert "operation third of skipjack-broken 0.1 is left out" in record.message
    assert failure in record.message


def test_doctor_lists_all_with_their_distribution_and_what_failed(site: Path) -> None:
    broken(
        site,
        "class Matmul: name = 'matmul'",
        operations={"matmul": "skipjack_broken:Matmul"},
        solver={"fast": "skipjack_broken:Fast"},
    )
    findings = list(plugin_findings())
    good = HealthCheck(
        "plug-in", "good", "operation halve of skipjack-tiny 1.2 (skipjack_tiny:Halve)"
    )
    assert good in findings
    bad = {one.text.split(" is left out: ")[0]: one.text for one in findings if one.level == "bad"}
    assert [*bad] == [
        "operation matmul of skipjack-broken 0.1 (skipjack_broken:Matmul)",
        "entry point fast of skipjack-broken 0.1 (skipjack_broken:Fast)",
    ]
    taken, stray = bad.values()
    assert "matmul" in taken
    assert "unknown group skipjack.solver; choose from skipjack.operations" in stray
    assert len(findings) == len(bad) + 4


def test_a_module_without_an_attribute_registers_what_the_name_says(site: Path) -> None:
    text = (
        "from dataclasses import replace\nfrom skipjack import operations\n"
        "operations.register(replace(operations.get('neg'), name='third', step='neg'))\n"
    )
    names = {"third": "skipjack_broken", "fifth": "skipjack_broken"}
    broken(site, text, operations=names)
    assert operations.get("third").name == "third"
    bad = [one.text for one in plugin_findings() if one.level == "bad"]
    assert len(bad) == 1 and "registers no operation 'fifth'" in bad[0]


def test_threads_that_load_a_plug_in_at_once_both_find_it(site: Path) -> None:
    known: dict[str, object] = {}
    meeting, one_at_a_time = threading.Barrier(2), threading.Lock()

    def add(name: str, found: object) -> None:
        meeting.wait()  # neither has added it when the other one looks
        with one_at_a_time:
            if name in known:
                raise UsageError(f"operation {name!r} is registered already")
            known[name] = found

    points = EntryPoints("operation", "skipjack.operations", known.get, add)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(points.load, ["halve", "halve"]))
    assert [one.failure for one in points.plugins()] == [""]
    assert [*known] == ["halve"]
