"""Trees of base configs: which file, which system, and what a system builds on."""

import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.errors import UsageError
from skipjack.sweep.configs import benchmark_name, detect_system_id, read_config_tree, scenario_name
from skipjack.sweep.configs.base_config import config_of_system
from skipjack.sweep.configs.names import gpu_system_id

SYSTEMS: dict[str, Any] = {
    "default": {"streams": 1, "precision": "fp16", "map": {"a": 1}},
    "A10x1": {"qps": 3300, "batch": 512, "config_ver": {"maxq": {"qps": 3000, "x": 1}}},
    "A10x8": {"scales": {"A10x1": {"qps": 8}}, "streams": 2, "config_ver": {"maxq": {"x": 2}}},
    "A30x1": {"extends": ["A10x1"], "batch": 1024},
    "A30x8": {"extends": ["A30x1"], "scales": {"A10x8": {"qps": 0.5}}, "map": {"b": 2}},
    "benchmark": "rnnt",
    "scenario": "Server",
}


def of(system: str) -> dict[str, Any]:
    return config_of_system(SYSTEMS, system, "config.json")


def test_a_system_stands_over_the_default() -> None:
    assert of("A10x1") == {
        **{"streams": 1, "precision": "fp16", "map": {"a": 1}, "qps": 3300, "batch": 512},
        **{"config_ver": {"maxq": {"qps": 3000, "x": 1}}, "system_id": "A10x1"},
        **{"benchmark": "rnnt", "scenario": "Server"},
    }


def test_own_values_win_over_what_is_extended() -> None:
    assert (of("A30x1")["qps"], of("A30x1")["batch"]) == (3300, 1024)


def test_scaled_values_are_multiplied_in_every_version() -> None:
    config = of("A10x8")
    assert (config["qps"], config["batch"], config["streams"]) == (26400, 512, 2)
    assert config["config_ver"] == {"maxq": {"qps": 24000, "x": 2}}


def test_parents_have_parents_and_later_ones_win() -> None:
    config = of("A30x8")
    assert (config["qps"], config["batch"]) == (13200.0, 512)
    assert config["map"] == {"b": 2}, "the default's value is replaced as a whole"


def test_reading_twice_gives_the_same() -> None:
    before = json.dumps(SYSTEMS)
    assert of("A30x8") == of("A30x8")
    assert json.dumps(SYSTEMS) == before


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"extends": ["X"]}, "derive from each other: X -> X"),
        ({"extends": ["Y"]}, "derive from each other: X -> Y -> X"),
        ({"scales": {"Y": {"q": 2}}}, "derive from each other: X -> Y -> X"),
        ({"extends": ["Z"], "scales": {"Z": {}}}, "X cannot both extend and scale Z"),
        (
            {"extends": ["Zz"]},
            "no entry for Zz, from which X derives; it has X, Y, Z; did you mean Z",
        ),
        ({"extends": "Z"}, "must be a list of system names"),
        ({"scales": {"Z": 8}}, "map systems to names with factors"),
        ({"scales": {"Z": {"r": 8}}}, "X scales Z, which has no r"),
        ({"scales": {"Z": {"t": 8}}}, "t is 'text' times 8; both must be numbers"),
        ({"scales": {"Z": {"b": 8}}}, "b is True times 8; both must be numbers"),
    ],
)
def test_what_cannot_be_built_upon_is_refused(entry: dict[str, Any], complaint: str) -> None:
    content = {
        "default": {},
        "X": entry,
        "Y": {"extends": ["X"]},
        "Z": {"q": 1, "t": "text", "b": True},
    }
    with pytest.raises(UsageError) as caught:
        config_of_system(content, "X", "config.json")
    assert complaint in str(caught.value)


def test_an_unknown_system_is_compared_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"no entry for A10x2; it has A10x1, .* did you mean A10"):
        of("A10x2")
    with pytest.raises(UsageError, match="no entry for benchmark"):
        of("benchmark")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for benchmark, scenario in [("rnnt", "Server"), ("rnnt", "Offline"), ("bert", "Server")]:
        place = tmp_path / benchmark / scenario
        place.mkdir(parents=True)
        content = {"default": {"b": benchmark}, "A10x1": {"s": scenario}}
        (place / "config.json").write_text(json.dumps(content))
    (tmp_path / "measurements" / "unrelated").mkdir(parents=True)
    (tmp_path / "measurements" / "unrelated" / "config.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("benchmark", ["rnnt", "RNN-T", "Rnnt", "rnn_t"])
@pytest.mark.parametrize("scenario", ["Server", "server", "SERVER"])
def test_a_file_is_found_in_any_spelling(tree: Path, benchmark: str, scenario: str) -> None:
    base = read_config_tree(tree, benchmark, scenario, "A10x1")
    assert base.config == {
        **{"b": "rnnt", "s": "Server", "system_id": "A10x1"},
        **{"benchmark": "rnnt", "scenario": "Server"},
    }
    assert base.where == str(tree / "rnnt" / "Server" / "config.json")
    assert base.system_id == "A10x1"


def test_exactly_one_file_must_match(tree: Path) -> None:
    with pytest.raises(
        UsageError, match=r"has no config.json for bert Offline; it has bert Server"
    ):
        read_config_tree(tree, "bert", "Offline", "A10x1")
    (tree / "rnnt").joinpath("server").mkdir()
    (tree / "rnnt" / "server" / "config.json").write_text('{"default": {}}')
    with pytest.raises(UsageError, match=r"several files match rnnt Server: .*; keep one of them"):
        read_config_tree(tree, "rnnt", "Server", "A10x1")
    with pytest.raises(UsageError, match=r"the directory of base configs .* does not exist"):
        read_config_tree(tree / "nowhere", "rnnt", "Server", "A10x1")


def test_a_file_without_default_is_refused(tree: Path) -> None:
    path = tree / "bert" / "Server" / "config.json"
    path.write_text('{"A10x1": {}}')
    with pytest.raises(UsageError, match="has no object 'default'"):
        read_config_tree(tree, "bert", "Server", "A10x1")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("resnet", "resnet50"), ("ResNet-50", "resnet50"), ("RNN-T", "rnnt"), ("Rnnt", "rnnt")),
        *(("bert-99.9", "bert"), ("BERT", "bert"), ("unet", "3d-unet"), ("3D_UNet", "3d-unet")),
        *(("SSD-Large", "ssd-resnet34"), ("my-own", "my-own"), ("dlrm-v2-99", "dlrm-v2")),
    ],
)
def test_benchmarks_are_known_in_any_spelling(text: str, name: str) -> None:
    assert benchmark_name(text) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("offline", "Offline"), ("single_stream", "SingleStream"), ("SERVER", "Server")),
        *(("Single-Stream", "SingleStream"), ("multistream", "MultiStream")),
        *(("multi_stream", "MultiStream"), ("Multi Stream", "MultiStream")),
    ],
)
def test_scenarios_are_known_in_any_spelling(text: str, name: str) -> None:
    assert scenario_name(text) == name


def test_an_unknown_scenario_is_refused() -> None:
    with pytest.raises(UsageError, match=r"unknown scenario 'Servr'; .* did you mean Server\?"):
        scenario_name("Servr")


def test_systems_are_named_after_their_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_system_id(["NVIDIA A10"]) == "A10x1"
    assert gpu_system_id(["Tesla T4"] * 8) == "T4x8"
    assert gpu_system_id(["NVIDIA A100-SXM4-40GB"] * 2) == "A100-SXM4-40GBx2"
    assert gpu_system_id(["NVIDIA GeForce RTX 3090", "NVIDIA A10"]) == "RTX-3090x1+A10x1"
    assert gpu_system_id([]) == ""
    monkeypatch.setenv("PATH", "")  # no nvidia-smi
    assert detect_system_id()
