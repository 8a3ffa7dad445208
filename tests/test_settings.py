"""Settings: arguments, then environment, then file, checked in one place."""

import os
import sys
from pathlib import Path

import platformdirs
import pytest

from skipjack.errors import UsageError
from skipjack.settings import load_settings, variables


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in os.environ:
        if name.startswith("SKIPJACK_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path))


def test_defaults_need_nothing(tmp_path: Path) -> None:
    settings = load_settings()
    assert settings.user_dir == tmp_path
    assert settings.log_level == "warning"
    assert settings.build_workers == max(1, len(os.sched_getaffinity(0)) - 1)
    assert settings.core is None
    assert settings.plugins == ()


def test_the_user_directory_is_the_platforms_without_a_variable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SKIPJACK_USER_DB_PATH")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert load_settings().user_dir == platformdirs.user_data_path("skipjack")


def test_without_platformdirs_the_user_directory_is_where_linux_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SKIPJACK_USER_DB_PATH")
    monkeypatch.setitem(sys.modules, "platformdirs", None)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings().user_dir == tmp_path / ".local" / "share" / "skipjack"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert load_settings().user_dir == tmp_path / "data" / "skipjack"


def test_an_argument_beats_the_environment_which_beats_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text('log_level = "info"\nbuild_workers = 3\n')
    assert load_settings().log_level == "info"
    monkeypatch.setenv("SKIPJACK_LOG_LEVEL", "ERROR")
    assert load_settings().log_level == "error"
    assert load_settings(log_level="debug").log_level == "debug"
    assert load_settings().build_workers == 3


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_LOG_LEVEL", "")
    assert load_settings().log_level == "warning"


def test_the_user_directory_becomes_absolute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", "~/somewhere")
    assert load_settings().user_dir == Path.home() / "somewhere"
    assert load_settings(user_dir="here").user_dir == Path.cwd() / "here"


def test_plugins_are_separated_like_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPJACK_PLUGINS", os.pathsep.join(["mine.ops", "/x/solver.py", ""]))
    assert load_settings().plugins == ("mine.ops", "/x/solver.py")


def test_a_core_that_may_be_used_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    core = max(os.sched_getaffinity(0))
    monkeypatch.setenv("SKIPJACK_CORE", str(core))
    assert load_settings().core == core


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SKIPJACK_LOG_LEVEL", "loud"),
        ("SKIPJACK_BUILD_WORKERS", "0"),
        ("SKIPJACK_BUILD_WORKERS", "many"),
        ("SKIPJACK_BUILD_WORKERS", "-1"),
        ("SKIPJACK_CORE", "1.5"),
        ("SKIPJACK_CORE", "100000"),
    ],
)
def test_a_bad_value_names_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(UsageError, match=rf"{variable} is '{value}'; \w+"):
        load_settings()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour = 1", r"config\.toml has an unknown key 'colour'"),
        ("user_dir = '/x'", "unknown key 'user_dir'"),
        ("limits = 3", r"config\.toml: limits is 3; write a table"),
        ("core = true", r"config\.toml: core is True"),
        ("plugins = [1]", r"config\.toml: plugins is \[1\]"),
        ("log_level =", r"config\.toml:1: this is not TOML"),
    ],
)
def test_a_bad_file_names_itself_and_the_key(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError, match=complaint):
        load_settings()


def test_plugins_in_a_file_are_a_list(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('plugins = ["a", "b.py"]')
    assert load_settings().plugins == ("a", "b.py")


def test_build_workers_are_bounded_by_the_cores(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(variables, "usable_cores", lambda: frozenset({0, 1, 2}))
    variables.warn_of_workers.cache_clear()
    monkeypatch.setenv("SKIPJACK_BUILD_WORKERS", "12")
    assert load_settings().build_workers == 12
    assert not caplog.records
    monkeypatch.setenv("SKIPJACK_BUILD_WORKERS", "999")
    assert load_settings().build_workers == load_settings().build_workers == 12
    (record,) = caplog.records
    assert record.getMessage().startswith("999 build workers are too many")
