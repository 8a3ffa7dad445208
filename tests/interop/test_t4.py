"""Results that other autotuners recorded: the T4 format and Kernel Tuner's cache files."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from skipjack.core import Config, Status, Trial
from skipjack.errors import MalformedError, MissingFileError, SkipjackError
from skipjack.interop import (
    TuningResults,
    read_tuning_results,
    write_kernel_tuner_cache,
    write_t4,
)

TRIALS = (
    Trial(Config(tile=16, order="nk", pack=True), value=1.5, metrics={"time": 1.5}),
    Trial(Config(tile=32, order="nk", pack=False), value=0.75, metrics={"time": 0.75}),
    Trial(Config(tile=64, order="kn", pack=False), Status.BUILD_ERROR, reason="too large"),
)


def entry(**more: Any) -> dict[str, Any]:
    return {
        "configuration": {"tile": 16},
        "times": {},
        "invalidity": "correct",
        "correctness": 1,
        "measurements": [{"name": "time", "value": 2.0, "unit": ""}],
        "objectives": ["time"],
        **more,
    }


def written(folder: Path, *entries: object, **more: object) -> Path:
    path = folder / "space.json"
    document = {"results": list(entries), "schema_version": "1.0.0", "metadata": {}, **more}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", ["space.json", "space.json.gz"])
def test_results_are_the_same_after_writing_and_reading(tmp_path: Path, name: str) -> None:
    results = TuningResults(TRIALS, unit="ms", metadata={"gpu": "A4000"})
    write_t4(tmp_path / name, results)
    assert read_tuning_results(tmp_path / name) == results


def test_a_compressed_file_is_the_same_for_the_same_results(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_t4(tmp_path / name, TuningResults(TRIALS))
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_every_failure_has_a_status(tmp_path: Path) -> None:
    words = ("compile", "runtime", "timeout", "correctness", "constraints")
    entries = [
        entry(configuration={"tile": at}, invalidity=word, measurements=[])
        for at, word in enumerate(words)
    ]
    trials = read_tuning_results(written(tmp_path, *entries)).trials
    assert [trial.status for trial in trials] == [
        Status.BUILD_ERROR,
        Status.CRASH,
        Status.TIMEOUT,
        Status.WRONG,
        Status.INFEASIBLE,
    ]
    assert not any(trial.ok for trial in trials)


def test_the_unit_of_the_metadata_is_that_of_the_values(tmp_path: Path) -> None:
    path = written(tmp_path, entry(), metadata={"timeunit": "miliseconds"})
    assert read_tuning_results(path).unit == "ms"


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "results: expected a list with at least one entry"),
        (["x"], 'results[0]: expected an object, found "x"'),
        ([{}], "results[0]: the field configuration is missing"),
        ([entry(configuration={})], "results[0].configuration: it has no parameters"),
        (
            [entry(configuration={"tile": [1]})],
            "configuration.tile: expected a number, a text or true or false, found a list",
        ),
        ([entry(invalidity="odd")], "results[0].invalidity: expected one of correct, compile"),
        ([entry(measurements=None)], "results[0]: the list of measurements is missing"),
        ([entry(measurements=[])], "results[0]: it is correct, but has no measurement named time"),
        (
            [entry(measurements=[{"name": "time", "value": "InvalidConfig"}])],
            'results[0].measurements[0].value: expected a number above 0, found "InvalidConfig"',
        ),
        (
            [entry(measurements=[{"name": "time", "value": 0}])],
            "results[0].measurements[0].value: expected a number above 0, found 0",
        ),
        ([entry(), entry()], "results[1]: it has the same config as results[0]"),
        (
            [entry(), entry(configuration={"tile": 1, "more": 1})],
            "results[1]: it has the parameter more, unlike the first",
        ),
        (
            [entry(), entry(configuration={"tile": 1}, objectives=["energy"])],
            'results[1].objectives: expected time as in earlier entries, found "energy"',
        ),
        ([entry(objectives="time")], "results[0].objectives: expected a list of names"),
        (
            [entry(objectives=["GFLOP/s"], measurements=[{"name": "GFLOP/s", "value": 2.0}])],
            "space.json: the objective GFLOP/s is a rate",
        ),
    ],
)
def test_a_malformed_entry_is_named(tmp_path: Path, entries: list[object], said: str) -> None:
    with pytest.raises(MalformedError) as failure:
        read_tuning_results(written(tmp_path, *entries))
    assert said in str(failure.value)
    assert "\n" not in str(failure.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "space.json:1: this is not JSON"),
        (b"[]", "space.json: expected an object, found a list"),
        (b"{}", "this is neither a T4 file"),
        (b"\xff", "space.json: byte 0 is not UTF-8"),
        (b"\x1f\x8bnonsense", "the compressed data are damaged"),
        (gzip.compress(b'{"results": []}')[:-9], "the compressed data end too early"),
        (b'{"results": [NaN]}', "NaN is not a finite number"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "space.json"
    path.write_bytes(data)
    with pytest.raises(MalformedError, match=r"space\.json") as failure:
        read_tuning_results(path)
    assert said in str(failure.value)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="there is no file"):
        read_tuning_results(tmp_path / "none.json")
    with pytest.raises(SkipjackError, match="cannot read"):
        read_tuning_results(tmp_path)


def test_a_cache_file_of_kernel_tuner_keeps_configs_values_and_failures(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write_kernel_tuner_cache(path, TuningResults(TRIALS))
    read = read_tuning_results(path)
    assert [(one.config, one.status, one.value) for one in read.trials] == [
        (one.config, one.status, one.value) for one in TRIALS
    ]
    document = json.loads(path.read_text())
    assert document["tune_params_keys"] == ["tile", "order", "pack"]
    assert document["tune_params"]["tile"] == sorted({trial.config["tile"] for trial in TRIALS})
    assert document["cache"]["64,kn,False"]["__error__"] == "CompilationFailedConfig"


def test_a_cache_file_of_a_search_that_was_stopped_is_read(tmp_path: Path) -> None:
    path = tmp_path / "cache.json"
    write_kernel_tuner_cache(path, TuningResults(TRIALS))
    text = path.read_text().rstrip()
    assert text.endswith("}\n}\n}")
    path.write_text(text.removesuffix("\n}\n}") + ",\n")
    assert len(read_tuning_results(path).trials) == len(TRIALS)
