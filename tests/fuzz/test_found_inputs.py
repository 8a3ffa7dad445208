"""The smallest inputs that once raised something else than an error of ours, or did not end."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from readers import READERS

from skipjack.errors import MalformedError, SkipjackError
from skipjack.interop.loadgen import detail_log

MANY = b"1" * 4301
DEEP = b"[" * 5000
FOUND: dict[str, tuple[bytes, ...]] = {
    "find-db key": (b"1-1-1-1x1-1-1-1-1-0x0-1x1-1x1-" + MANY + b"-NCHW-FP32-F",),
    "database name": (b"gfx908_" + MANY + b".db", b"znver4_" + MANY + b".kdb"),
    "device name": (b"gfx908/" + MANY,),
    "Slurm request": (
        b"nightl\x89 1:00:00",
        b"nightly " + MANY,
        b"nightly 1:00:00 --a=b -\xe5once",
    ),
    "expression": (b"a<" * 500 + b"a", b"a and " * 300 + b"a", b"max(" + b"a," * 900 + b"a)"),
    "config key": (b"1", b"", b"[]", b'{"a": ' + MANY + b"}", DEEP, b'{"a": NaN}'),
    "config text": (b"a~!" + DEEP, b"a~" + MANY, b"a~!1e309", b"%ee~1"),
    "config.toml": (b"build_workers = " + MANY, b"plugins = " + DEEP, b"core = 1e309"),
    "plan": (
        b"steps: [{import: {file: " + b"x" * 300 + b", tag: small}}]",
        b"format: " + MANY + b"\nsteps: [run]",
        b"steps: [{tune: {problems: ['" + b"login " * 40_000 + b"']}}]",
    ),
    "progress of a plan": (b'{"format": 1, "event": "begun", "step": ' + DEEP + b"\n", b"[]\n"),
    "sweep in JSON": (b'{"a": [' + MANY + b"]}", b'{"a": ' + DEEP),
    "sweep in TOML": (b"[parameters]\na = [" + MANY + b"]", b"seed = " + DEEP),
    "base config": (b'{"a": ' + MANY + b"}",),
    "user.conf": (b"*.S" * 80_000, b"*.Server.target_qps = 1e309", b"*.Server.target_qps\x9a = 1"),
    "answer about an image": (DEEP, b"[1]", b'[{"Id": []}]'),
    "answer of a machine": (b'{"format": ' + DEEP, b'{"format": "1"}', b"[]"),
    "devices.json": (b'{"format": 1, "devices": {"x": 1}}', DEEP, b"[]"),
    "device record": (b"-1", b"{}", b'{"caches": [[1]], "features": []}'),
    "wire": (b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0[]", b"\xff" * 8, b"\1\0\0\0\0\0\0\0{"),
    "launch plan": (b'{"fill": ["@scratch", [], 64], "size": 1, "byte": 0}', DEEP),
    "GPU artifact": (b"skipjack gpu artifact\n" + b"\x88\x13\0\0\0\0\0\0" + DEEP,),
    "record of a cluster": (b"-1", b'{"format": 1, "nodes": [], "head": "a", "ip": 1}'),
    "URL of a store": (
        b"sqlite:///~nobody1/x",
        b"sqlite:///~\0/x.db",
        b"mysql+pymysql://user@[::1]/d\xbc",
    ),
    "record of a node": (b'"x"', DEEP),
}


def _read(name: str, data: bytes, directory: Path) -> object:
    (reader,) = (one for one in READERS if one.name == name)
    return reader.read(data, directory)


@pytest.mark.parametrize(
    ("name", "data"),
    [(name, data) for name, inputs in FOUND.items() for data in inputs],
    ids=[f"{name} {at}" for name, inputs in FOUND.items() for at in range(len(inputs))],
)
def test_an_input_gives_a_value_or_one_of_our_errors(
    name: str, data: bytes, tmp_path: Path
) -> None:
    try:
        _read(name, data, tmp_path)
    except SkipjackError as error:
        assert "\n" not in str(error)


def test_a_chain_of_comparisons_is_computed(tmp_path: Path) -> None:
    with pytest.raises(SkipjackError, match=r"more than 2000 parts|characters"):
        _read("expression", b"a<" * 1500 + b"a", tmp_path)
    assert _read("expression", b"a<=" * 300 + b"a", tmp_path) is True


def test_a_config_key_is_refused_by_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(MalformedError, match=r"^config: expected an object, found 1$"):
        _read("config key", b"1", tmp_path)


_LINE: dict[str, Any] = {
    **{"format": 1, "kind": "perf", "problem": "p", "device": "gfx90a/104", "perf_key": "k"},
    **{"configs": [{"solver": "A", "params": "1"}], "miopen": [], "toolchain": "", "updated": ""},
}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"device": {}}, "device: expected a text, found an object"),
        ({"problem": []}, "problem: expected a text, found a list"),
        ({"perf_key": ["k"]}, "perf_key: expected a text, found a list"),
        ({"configs": [{"solver": ["A"], "params": "1"}]}, r"configs\[0\].solver: expected a text"),
        ({"configs": [{"solver": "A", "time_ns": []}]}, r"configs\[0\].time_ns: expected a number"),
        ({"configs": [{"solver": "A", "params": 1}]}, r"configs\[0\].params: expected a text"),
        ({"miopen": [1]}, r"miopen\[0\]: expected a text"),
    ],
)
def test_a_line_of_a_database_says_which_field_is_wrong(
    change: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    data = json.dumps({**_LINE, **change}).encode()
    with pytest.raises(
        SkipjackError, match=rf"x.jsonl:1 is not a record of a database: {complaint}"
    ):
        _read("JSON lines that are converted", data, tmp_path)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("time_ns", "[]", "time_ns: expected a number, found a list"),
        ("time_ns", "1e309", "1e309 is not a finite number"),
        ("slots", "[{}]", r"slots\[0\]: expected a whole number, found an object"),
        ("config", "[]", "config: expected an object, found a list"),
    ],
)
def test_a_record_of_a_kernel_file_says_which_field_is_wrong(
    field: str, value: str, complaint: str, tmp_path: Path
) -> None:
    (reader,) = (one for one in READERS if one.name == "record of a kernel file")
    record = {**json.loads(reader.seeds()[0]), field: "VALUE"}
    data = json.dumps(record).replace('"VALUE"', value).encode()
    with pytest.raises(SkipjackError, match=f"^k.skk is damaged: {complaint}; export it again$"):
        reader.read(data, tmp_path)


@pytest.mark.parametrize("value", ["1e309", "NaN", "-1e309", "Infinity", "1" * 4301])
@pytest.mark.parametrize("key", ["result_query_count", "effective_target_qps", "result_x"])
def test_a_value_of_loadgen_that_is_no_number_is_passed_over(key: str, value: str) -> None:
    log = detail_log.parse_detail_log(f':::MLLOG {{"key": "{key}", "value": {value}}}')
    assert key not in log.values
    detail_log.judge(log)


@pytest.mark.parametrize("percentile", [0.99999999, 1 - 1e-15, 0.9, 1e-300, 0.0, -1.0, 1e308])
@pytest.mark.parametrize(("late", "count"), [(0, 1), (1, 10**9), (999, 99_000), (10**300, 10**308)])
def test_early_stopping_is_worked_out_in_few_steps(
    percentile: float, late: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    doubt = detail_log._doubt

    def counted(percentile: float, queries: int, late: int) -> float:
        nonlocal steps
        steps += 1
        return doubt(percentile, queries, late)

    monkeypatch.setattr(detail_log, "_doubt", counted)
    values = {
        "effective_scenario": "Server",
        "effective_target_latency_percentile": percentile,
        "result_overlatency_query_count": late,
        "result_query_count": count,
        "effective_target_qps": 1.7e308,
        "result_min_duration_met": False,
        "early_stopping_met": False,
    }
    found = detail_log.judge(detail_log.LoadgenLog(values))
    assert all(math.isfinite(value) for value in found.repair.values())
    assert steps < 10_000
    detail_log.judge(detail_log.LoadgenLog({**values, "effective_scenario": "Offline"}))
