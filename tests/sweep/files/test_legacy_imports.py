"""Imports of sweep files: our classes by their old names, and no trace of them afterwards."""

import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

from skipjack.search import scripted
from skipjack.sweep.files import SweepFile, read_sweep_file

OLD_NAMES = ("library", "scripts", "scripts.autotune", "scripts.autotune.library")


def read(directory: Path, text: str) -> SweepFile:
    path = directory / "tune.py"
    path.write_text(dedent(text))
    return read_sweep_file(path)


def test_all_old_names_are_one_set_of_classes(tmp_path: Path) -> None:
    file = read(
        tmp_path,
        """
        import library
        import scripts.autotune.library
        from library import Bisect
        from scripts.autotune import library as third
        from scripts.autotune.library import Bisect as again
        same = [Bisect is again, library is third, scripts.autotune.library is third]
        ours = [Bisect.__module__]
        """,
    )
    assert file.parameters["same"] == (True, True, True)
    assert file.parameters["ours"] == (scripted.Bisect.__module__,)


def test_everything_that_was_in_the_library_is_there(tmp_path: Path) -> None:
    names = (
        "Bisect, CartesianProduct, Composer, FindUpperBound, GreedyStepper, Overlay, QPSBisect, "
        "Run, SearcherInterface, Step, do_send"
    )
    assert read(tmp_path, f"from library import {names}\na = [1]").parameters == {"a": (1,)}


def test_no_module_is_left_behind(tmp_path: Path) -> None:
    path_before = list(sys.path)
    read(tmp_path, "import library, scripts.autotune.library\na = [1]")
    assert not [name for name in OLD_NAMES if name in sys.modules]
    assert sys.path == path_before


def test_what_was_imported_before_is_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = ModuleType("library")
    monkeypatch.setitem(sys.modules, "library", theirs)
    read(tmp_path, "from library import Step\na = [1]")
    assert sys.modules["library"] is theirs


def test_a_failing_file_leaves_nothing_behind_either(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="broken"):
        read(tmp_path, "import library\nraise ValueError('broken')")
    assert "library" not in sys.modules


def test_hooks_may_import_when_they_are_called(tmp_path: Path) -> None:
    (tmp_path / "late_neighbour.py").write_text("limit = 3\n")
    file = read(
        tmp_path,
        """
        a = [1]
        def META_is_config_valid(config):
            from library import Step
            import late_neighbour
            late_neighbour.limit += 1
            return late_neighbour.limit
        def META_search_callback():
            from scripts.autotune.library import Step
            return Step("a", 1, 3, lambda x: x + 1)
        """,
    )
    assert file.search is not None and file.is_valid is not None
    assert [dict(point) for point in file.search().generate()] == [{"a": 1}, {"a": 2}]
    assert file.is_valid({}) and file.is_valid({})
    assert "late_neighbour" not in sys.modules


def test_a_neighbour_is_one_module_for_all_hooks_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text("calls = {}\n")
    file = read(
        tmp_path,
        """
        import counting
        def META_is_config_valid(config):
            import counting as again
            return again is counting
        """,
    )
    assert file.is_valid is not None
    assert file.is_valid({})


def test_a_library_next_to_the_file_does_not_win_and_is_remarked_upon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "library.py").write_text("Step = 'theirs'\n")
    file = read(tmp_path, "from library import Step\nkind = [Step.__name__]")
    assert file.parameters == {"kind": ("Step",)}
    assert "library.py is not imported by" in caplog.text


def test_other_modules_of_a_tree_of_scripts_stay_importable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "scripts" / "autotune"
    tools.mkdir(parents=True)
    (tmp_path / "scripts" / "sizes.py").write_text("small = [1, 2]\n")
    (tools / "more.py").write_text("large = [64]\n")
    (tools / "library.py").write_text("raise RuntimeError('the old one')\n")
    monkeypatch.chdir(tmp_path)
    file = read(
        tools,
        """
        from scripts.autotune.library import Step
        from scripts.autotune.more import large
        from scripts.sizes import small
        """,
    )
    assert file.parameters == {"large": (64,), "small": (1, 2)}


def test_packages_installed_beside_a_file_are_imported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "heavy_package.py").write_text("size = 3\n")
    monkeypatch.syspath_prepend(installed)
    try:
        read(tmp_path, "import heavy_package\na = [heavy_package.size]")
        assert "heavy_package" in sys.modules
    finally:
        sys.modules.pop("heavy_package", None)
