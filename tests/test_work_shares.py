"""Files, and pages that take long, are what workers of pytest-xdist get."""

import subprocess
import sys
from pathlib import Path

from work_shares import share_of


def test_the_tests_of_a_file_share_a_worker() -> None:
    assert share_of("tests/a/test_b.py::test_c") == share_of("tests/a/test_b.py::test_d[::x]")
    assert share_of("tests/a/test_b.py::test_c") != share_of("tests/a/test_c.py::test_c")


def test_each_page_of_the_docs_may_have_a_worker_of_its_own() -> None:
    page = "tests/docs/test_docs.py::test_marked_blocks_run[{}]"
    assert share_of(page.format("tune.md")) != share_of(page.format("find.md"))


def test_a_fixture_of_a_file_is_set_up_in_one_worker_alone(tmp_path: Path) -> None:
    place = tmp_path / "tests"
    place.mkdir()
    (place / "conftest.py").write_text(
        "from work_shares import FilesToWorkers\n"
        "def pytest_xdist_make_scheduler(config, log):\n"
        "    return FilesToWorkers(config, log)\n"
    )
    (place / "test_one.py").write_text(
        "import os, pathlib, pytest\n"
        "@pytest.fixture(scope='module')\n"
        "def prepared():\n"
        f"    pathlib.Path({str(tmp_path)!r}, 'by-' + os.environ['PYTEST_XDIST_WORKER']).touch()\n"
        "@pytest.mark.parametrize('n', range(12))\n"
        "def test_many(n, prepared): pass\n"
    )
    (place / "test_two.py").write_text("def test_another(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "-q", "--rootdir", str(tmp_path), str(place)],
        env={"PYTHONPATH": str(Path(__file__).parent), "PATH": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "13 passed" in done.stdout, done.stdout + done.stderr
    assert len(list(tmp_path.glob("by-*"))) == 1
