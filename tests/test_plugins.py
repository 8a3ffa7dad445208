"""Users' modules and files are loaded once, in order, here and in workers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skipjack import plugins
from skipjack.errors import UsageError


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(plugins.VARIABLE, "")
    monkeypatch.setenv(plugins.FOLDERS, "")
    yield


@pytest.fixture
def diary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("zebra", "ant"):
        code = f"from pathlib import Path\nwith Path('diary').open('a') as f: f.write('{name} ')\n"
        Path(f"{name}.py").write_text(code)
    return tmp_path / "diary"


def test_files_are_loaded_once_and_in_order(diary: Path) -> None:
    plugins.load(("zebra.py", "ant.py"))
    plugins.load(("ant.py", str(Path("zebra.py").absolute())))
    assert diary.read_text().split() == ["zebra", "ant"]


def test_workers_inherit_them_wherever_they_stand(diary: Path) -> None:
    plugins.load(("zebra.py", "ant.py", "json"))
    inherited = os.environ[plugins.VARIABLE].split(os.pathsep)
    assert inherited == [str(diary.with_name("zebra.py")), str(diary.with_name("ant.py")), "json"]
    plugins._loaded.clear()
    plugins.load_from_environment()
    assert diary.read_text().split() == ["zebra", "ant", "zebra", "ant"]


@pytest.mark.parametrize("name", ["no_such_module", "no_such_file.py"])
def test_what_is_not_there_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=name):
        plugins.load((name,))
    assert not os.environ[plugins.VARIABLE]


def test_what_cannot_be_imported_says_why(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("1 / 0\n")
    with pytest.raises(UsageError, match=r"bad\.py cannot be imported: division by zero"):
        plugins.load((str(bad),))


def test_a_file_may_import_what_lies_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "lies_beside_it.py").write_text("WORD = 'found'\n")
    plugin = tmp_path / "with_a_neighbour.py"
    plugin.write_text("from lies_beside_it import WORD\n")
    plugins.load((str(plugin),))
    assert sys.modules["skipjack_plugin_with_a_neighbour"].WORD == "found"


def test_a_file_that_ends_the_program_is_refused(diary: Path) -> None:
    Path("quitter.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(UsageError, match=r"quitter\.py ends the program .*__main__"):
        plugins.load(("quitter.py",))
    assert not os.environ[plugins.VARIABLE]


def test_what_a_file_prints_is_kept_out_of_the_results(
    diary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("chatty.py").write_text("print('hello')\n")
    plugins.load(("chatty.py",))
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "hello\n")


def test_workers_find_modules_where_this_process_found_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook, or beside a script: workers do not look there by themselves."""
    beside = tmp_path / "beside"
    (beside / "own_package").mkdir(parents=True)
    (beside / "own_package" / "__init__.py").touch()
    (beside / "own_package" / "operations.py").write_text("WORD = 'found'\n")
    monkeypatch.setattr(sys, "path", [str(beside), *sys.path])
    plugins.load(("own_package.operations", "json"))
    code = (
        "from skipjack import plugins; plugins.load_from_environment(); import sys;"
        "print(sys.modules['own_package.operations'].WORD, sys.path[-1])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["found", str(beside)]


def test_a_path_that_workers_would_split_is_refused_at_once(tmp_path: Path) -> None:
    place = tmp_path / "a:b"
    place.mkdir()
    (place / "op.py").touch()
    with pytest.raises(UsageError, match=r"a:b/op\.py has ':' in its path.*symbolic link"):
        plugins.load((str(place / "op.py"),))
    (tmp_path / "link").symlink_to(place)
    plugins.load((str(tmp_path / "link" / "op.py"),))
    assert os.environ[plugins.VARIABLE] == str(tmp_path / "link" / "op.py")


def test_standard_output_is_as_before_when_imports_of_two_threads_overlap() -> None:
    before = sys.stdout
    first, second = plugins.importing("first"), plugins.importing("second")
    with first:
        assert sys.stdout is sys.stderr
        second.__enter__()
    assert sys.stdout is sys.stderr, "the second one goes on"
    second.__exit__(None, None, None)
    assert sys.stdout is before
