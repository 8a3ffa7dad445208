"""Base configs: read, checked against a file's names, and overlaid."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import ForeignError, UsageError
from skipjack.sweep.configs import BaseConfig, check_names, is_allowed, overlay, read_base_config
from skipjack.sweep.files import read_sweep_file


def write(path: Path, content: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_a_flat_file_is_the_config(tmp_path: Path) -> None:
    path = write(tmp_path / "base.json", {"a": 1, "default": 3, "nested": {"x": 1}})
    base = read_base_config(path)
    assert base.config == {"a": 1, "default": 3, "nested": {"x": 1}}
    assert base.where == str(path)
    assert base.with_point({"a": 2})["a"] == 2


def test_the_system_is_looked_for_only_where_a_file_has_several(tmp_path: Path) -> None:
    def never() -> str:
        raise AssertionError

    assert read_base_config(write(tmp_path / "flat.json", {"a": 1}), never).config == {"a": 1}
    tree = write(tmp_path / "tree.json", {"default": {"a": 1}, "A10x1": {"b": 2}})
    assert read_base_config(tree, lambda: "A10x1").config["b"] == 2
    with pytest.raises(UsageError, match="choose one with --system-id"):
        read_base_config(tree)


def test_the_point_of_the_base_config_has_the_swept_names() -> None:
    base = BaseConfig({"a": 1, "b": 2}, "base.json")
    point = base.point({"b": ()})
    assert point is not None and dict(point) == {"b": 2}
    assert base.point({"b": (), "c": ()}) is None


def test_a_name_that_the_base_config_lacks_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tune.py"
    path.write_text("gpu_batch_size = [1]\n\naudio_bach_size = [1]\n")
    file = read_sweep_file(path)
    base = BaseConfig({"gpu_batch_size": 1, "audio_batch_size": 1}, "base.json")
    with pytest.raises(UsageError) as caught:
        check_names(file, base)
    sentence = str(caught.value)
    assert sentence.startswith(f"{path}:3: audio_bach_size is not in the base config base.json")
    assert "--no-check-keys" in sentence
    assert sentence.endswith("did you mean audio_batch_size or gpu_batch_size?")
    check_names(file, BaseConfig())  # without a base config there is nothing to check


def test_the_rule_sees_the_whole_config_and_failures_name_the_point(tmp_path: Path) -> None:
    path = tmp_path / "tune.py"
    path.write_text("def META_is_config_valid(c):\n    return c['a'] * c['swept'] < c['limit']\n")
    file = read_sweep_file(path)
    base = BaseConfig({"a": 2, "limit": 5}, "base.json")
    assert is_allowed(file, base, {"swept": 2})
    assert not is_allowed(file, base, {"swept": 3})
    with pytest.raises(ForeignError, match=r"tune.py:2: .*KeyError: 'swept'; .* point was other=3"):
        is_allowed(file, base, {"other": 3})


def test_flat_overlays_replace_and_nested_ones_merge() -> None:
    base = {"a": 1, "versions": {"triton": {"x": 1, "y": 2}, "other": {}}}
    point = {"versions": {"triton": {"y": 3}}}
    assert overlay(base, point) == {"a": 1, "versions": {"triton": {"y": 3}}}
    assert overlay(base, point, nested=True) == {
        "a": 1,
        "versions": {"triton": {"x": 1, "y": 3}, "other": {}},
    }
    assert overlay({"a": {"b": 1}}, {"a": 2}, nested=True) == {"a": 2}
    assert overlay({"a": 2}, {"a": {"b": 1}}, nested=True) == {"a": {"b": 1}}


def test_an_overlay_shares_nothing_with_what_it_is_made_of() -> None:
    base: dict[str, Any] = {"list": [1], "inner": {"x": [1]}}
    point: dict[str, Any] = {"new": {"y": 1}}
    result = overlay(base, point, nested=True)
    result["list"].append(2)
    result["inner"]["x"].append(2)
    result["new"]["y"] = 2
    assert base == {"list": [1], "inner": {"x": [1]}}
    assert point == {"new": {"y": 1}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1,\n"a": 2}', ":2: 'a' is defined twice"),
        ("[]", "must contain an object"),
        ("{", ":1: this is not JSON"),
    ],
)
def test_a_broken_base_config_is_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint):
        read_base_config(path)
    with pytest.raises(UsageError, match=r"base config .* does not exist"):
        read_base_config(tmp_path / "none.json")
