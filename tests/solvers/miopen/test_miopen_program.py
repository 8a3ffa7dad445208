"""Where MIOpenDriver is looked for, and what is said if it is nowhere."""

from pathlib import Path

import pytest

from skipjack.errors import WorkerError
from skipjack.solvers.miopen import find_driver
from skipjack.solvers.miopen.solver import DRIVER_VARIABLE


def program(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "MIOpenDriver"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_variable_goes_before_the_search_path_and_that_before_rocm(tmp_path: Path) -> None:
    named, on_path, rocm = (program(tmp_path / name) for name in ("named", "path", "rocm"))
    path = {"PATH": str(on_path.parent)}
    assert find_driver({DRIVER_VARIABLE: str(named), **path}, rocm.parent) == named
    assert find_driver(path, rocm.parent) == on_path
    assert find_driver({"PATH": str(tmp_path)}, rocm.parent) == rocm


def test_a_missing_driver_is_told_with_the_places_and_the_variable(tmp_path: Path) -> None:
    with pytest.raises(
        WorkerError, match=rf"search path nor in {tmp_path}; .* set {DRIVER_VARIABLE}"
    ):
        find_driver({"PATH": ""}, tmp_path)


def test_a_variable_that_names_no_program_is_not_passed_over(tmp_path: Path) -> None:
    path = program(tmp_path / "path")
    plain = tmp_path / "notes.txt"
    plain.write_text("")
    with pytest.raises(
        WorkerError, match=f"{DRIVER_VARIABLE} names .*notes.txt, which is not an exec"
    ):
        find_driver({DRIVER_VARIABLE: str(plain), "PATH": str(path.parent)})
