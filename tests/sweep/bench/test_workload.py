"""What tells one benchmark from another: everything that could change its results."""

from pathlib import Path

import pytest

from skipjack.sweep.bench import workload_of


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "run.sh").write_text("echo 1")
    return tmp_path


def digest(place: Path, command: str = "./run.sh", **facts: object) -> str:
    base = {"a": facts.pop("a", 1)}
    return workload_of("x", base, {"run": command.split()}, place, facts).digest


def test_the_same_is_the_same(place: Path) -> None:
    assert digest(place) == digest(place)


@pytest.mark.parametrize("command", ["./run.sh", "sh run.sh", "sh ./run.sh --fast"])
def test_an_edited_script_is_another_benchmark(place: Path, command: str) -> None:
    before = digest(place, command)
    (place / "run.sh").write_text("echo 2")
    assert digest(place, command) != before


def test_so_is_another_base_config_command_or_fact(place: Path) -> None:
    plain = digest(place)
    assert digest(place, a=2) != plain
    assert digest(place, "./run.sh -x") != plain
    assert digest(place, cores=(1,)) != plain


def test_programs_of_the_system_are_not_read(place: Path) -> None:
    assert digest(place, "ls") == digest(place, "ls")


def test_the_key_has_the_name(place: Path) -> None:
    key = workload_of("rnnt", {}, {}, place, {}).key
    assert key.startswith("sweep:rnnt@") and len(key) == len("sweep:rnnt@") + 16
