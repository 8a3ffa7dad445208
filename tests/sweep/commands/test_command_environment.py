"""Settings reach commands as variables, unless that would break the command itself."""

import json
from pathlib import Path

from skipjack.sweep.commands.command import (
    RunDirectories,
    RunFiles,
    environment,
    placeholders,
    variables,
    withheld,
    write_files,
)

FILES = RunFiles(Path("/c.json"), Path("/p.json"), Path("/build"))


def test_words_are_given_as_they_are_and_the_rest_as_json() -> None:
    config = {"name": "a b", "on": True, "rate": 0.5, "none": None, "count": 3}
    given = variables(config, FILES)
    assert given["name"] == "a b"
    assert (given["on"], given["rate"], given["none"], given["count"]) == (
        "true",
        "0.5",
        "null",
        "3",
    )


def test_files_are_named_by_variables_and_placeholders() -> None:
    given = variables({}, FILES)
    assert given == {
        "SKIPJACK_CONFIG": "/c.json",
        "SKIPJACK_POINT": "/p.json",
        "SKIPJACK_BUILD_DIR": "/build",
    }
    assert placeholders({"batch": 8}, FILES)["build_dir"] == "/build"


def test_what_would_break_commands_is_not_set() -> None:
    config = {"PATH": "x", "LD_PRELOAD": "x", "IFS": "x", "a.b": 1, "batch": 2, "nested": {"a": 1}}
    assert set(withheld(config)) == {"PATH", "LD_PRELOAD", "IFS", "a.b"}
    assert set(variables(config, FILES)) & set(config) == {"batch"}
    assert environment(config, FILES)["PATH"] != "x"


def test_a_name_that_only_looks_like_it_is_set() -> None:
    assert not withheld({"temp": 1, "user": 2, "lines": 3, "ldap": 4})


def test_the_files_hold_everything(tmp_path: Path) -> None:
    files = write_files(tmp_path, {"PATH": "x", "n": {"a": [1]}}, {"n": None}, user_conf=("a = 1",))
    assert json.loads(files.config.read_text()) == {"PATH": "x", "n": {"a": [1]}}
    assert json.loads(files.point.read_text()) == {"n": None}
    assert files.user_conf is not None
    assert files.user_conf.read_text() == "a = 1\n"


def test_the_oldest_run_directories_are_removed(tmp_path: Path) -> None:
    first = RunDirectories(tmp_path, kept=3)
    made = [first.new().name for _ in range(5)]
    again = RunDirectories(tmp_path, kept=3)
    made.append(again.new().name)
    assert made == [f"{number:06d}" for number in range(1, 7)]
    assert sorted(path.name for path in tmp_path.iterdir()) == made[-3:]
