"""Options over the file's own settings, checked before anything is started."""

import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import UsageError
from skipjack.sweep.session import set_up
from skipjack.sweep.session.setup import parse_cores, parse_settings


@pytest.fixture
def knobs(tmp_path: Path) -> Path:
    path = tmp_path / "knobs.json"
    path.write_text('{"batch": [1, 2], "streams": [1, 2, 3]}')
    (tmp_path / "base.json").write_text('{"batch": 1, "streams": 1, "qps": 100, "ms": 1}')
    return path


def made(path: Path, **given: Any) -> Any:
    return set_up(path, {"base": path.parent / "base.json", **given})


def test_a_file_of_lists_needs_only_its_base(knobs: Path) -> None:
    setup = made(knobs)
    assert setup.file.parameters == {"batch": (1, 2), "streams": (1, 2, 3)}
    assert setup.base.config["qps"] == 100
    assert setup.options.repeats == 1 and setup.options.confirm == 2
    assert setup.file.no_rebuild is None


def test_the_command_line_says_what_needs_no_build(knobs: Path) -> None:
    assert made(knobs, no_rebuild=["streams,batch"]).file.no_rebuild == ("streams", "batch")
    with pytest.raises(UsageError, match="has no parameter treams"):
        made(knobs, no_rebuild=["treams"])


def test_a_name_that_the_base_lacks_is_refused(knobs: Path) -> None:
    (knobs.parent / "base.json").write_text('{"batch": 1, "stream": 1}')
    with pytest.raises(UsageError, match="streams is not in the base config"):
        made(knobs)
    assert not made(knobs, no_check_keys=True).check_names


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"order": "best"}, "--order 'best' is unknown; use fewest-builds or listed"),
        ({"repeats": 0}, "--repeats must be at least 1, not 0"),
        ({"confirm": -1}, "--confirm must be 0 or more, not -1"),
        ({"screen": ["ms"]}, "--screen 'ms': write KEY=VALUE"),
        ({"screen": ["ms=1"], "confirm": 0}, "--screen searches with short runs"),
        ({"metric": ["qps"], "result": "json:x"}, "--metric 'qps' has no direction"),
        ({"result": "json:x"}, "--metric is missing: give --metric"),
        ({"result": "xml:x"}, "--result 'xml:x' is not understood"),
        ({"run_cores": "a"}, "--run-cores 'a'"),
        ({"load": "qps:9"}, "write PARAMETER:LOW:HIGH"),
        ({"load": "qps:9:1"}, "both bounds must be above 0, with the lower one first"),
        ({"load": "qqs:1:9"}, "--load names qqs, which is not in the base config"),
        ({"budget": 0}, "is too small"),
        ({"screen": ["mss=1"]}, "--screen sets mss, which is not in the base config"),
        ({"screen": ["batch=1"]}, "--screen sets batch, which"),
        ({"require": ["speed <"]}, "--require 'speed <'"),
        ({"run_timeout": 0.0}, "--run-timeout is 0"),
        ({"load": "qps:1:9", "searcher": "genetic"}, "--load chooses its own search"),
        ({"searcher": "genetic:population=x"}, "population of searcher genetic must be a whole"),
        ({"load": "batch:1:9"}, "lists values of batch, which --load searches"),
        ({"run_cores": "3-1"}, "--run-cores '3-1'"),
    ],
)
def test_what_cannot_work_is_one_sentence(
    knobs: Path, given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        made(knobs, **given)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_toml_file_gives_what_the_command_line_does_not(knobs: Path) -> None:
    path = knobs.with_name("knobs.toml")
    path.write_text(
        'base = "base.json"\nrun_cmd = "./run"\nresult = "exit"\nrepeats = 3\nconfirm = 0\n'
        "[parameters]\nbatch = [1, 2]\n"
    )
    setup = set_up(path, {"confirm": 5})
    assert setup.base.config["qps"] == 100, "a path in a file is beside the file"
    assert setup.spec is not None and setup.spec.run.text == "./run"
    assert setup.options.repeats == 3 and setup.options.confirm == 5


def test_settings_are_json_where_they_read_so() -> None:
    assert parse_settings(["a=1,b=x", "c=true"]) == {"a": 1, "b": "x", "c": True}
    assert json.dumps(parse_settings(["d=0.5"])) == '{"d": 0.5}'


def test_cores_are_ranges_and_lists() -> None:
    assert parse_cores("0-2,5") == (0, 1, 2, 5)
    assert parse_cores(None) == ()


def test_a_system_without_a_base_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UsageError, match="so it needs --base"):
        set_up(tmp_path / "a.json", {"system_id": "A10x1"})


def test_nested_names_reach_into_the_base(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"model.batch": [1, 2]}')
    (tmp_path / "base.json").write_text('{"model": {"batch": 4, "dtype": "f16"}}')
    setup = set_up(tmp_path / "a.json", {"base": tmp_path / "base.json", "nested": True})
    assert setup.base.with_point({"model.batch": 2}) == {"model": {"batch": 2, "dtype": "f16"}}
    assert dict(setup.base.point({"model.batch": 0}) or {}) == {"model.batch": 4}
    with pytest.raises(UsageError, match=r"model\.batch is not in the base config"):
        set_up(tmp_path / "a.json", {"base": tmp_path / "base.json"})
