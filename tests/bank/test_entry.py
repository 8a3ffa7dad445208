"""An entry is one canonical line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.bank import FORMAT, BankEntry, EntryOrigin, LaunchData
from skipjack.core import Config

MakeEntry = Any

entries = st.builds(
    BankEntry,
    problem=st.sampled_from(["add:4:f32", "add:5:f32"]),
    device=st.sampled_from(["cpu:a", "cpu:b"]),
    device_name=st.just("a/1"),
    solver=st.text(max_size=3),
    solver_version=st.integers(0, 3),
    config=st.dictionaries(st.text(max_size=2), st.integers() | st.booleans(), max_size=2),
    time_ns=st.floats(0, 1e9),
    default_ns=st.floats(0, 1e9),
    vendor_ns=st.none() | st.floats(0, 1e9),
    vendor=st.just(""),
    speedup=st.just({"default": {"ratio": 1.0, "low": 0.9, "high": 1.1}}),
    created=st.sampled_from(["2025-01-01T00:00:00.000000Z", "2025-01-02T00:00:00.000000Z"]),
)


@given(entries)
def test_a_line_reads_back(entry: BankEntry) -> None:
    assert BankEntry.from_line(entry.line) == entry
    assert "\n" not in entry.line
    assert json.loads(entry.line)["format"] == FORMAT


LAUNCH = LaunchData("ab" * 32, "kernel", "slots-v1", ("a", "out", 64), 4096, "cpu:x86-64-v3")


def test_launch_data_and_origin_are_of_the_line(entry: MakeEntry) -> None:
    parts = {"protocol": "p", "toolchain": "llvm-20", "output": "cd" * 32}
    made = entry(launch=LAUNCH, origin=EntryOrigin("tune", "ef"), **parts)
    read = BankEntry.from_line(made.line)
    assert read == made and read.launch == LAUNCH
    assert read.launch.slots == ("a", "out", 64)


FORMAT_1 = (
    '{"config":{"tile":8},"created":"t","default_ns":15.0,"device":"cpu:a","device_name":"a/1",'
    '"evidence":{"artifact":"%s","protocol":"hot","samples":20,"study":"s"},"format":1,'
    '"kind":"perf","problem":"add:8:f32","solver":"nest","solver_version":1,'
    '"speedup":{"default":{"high":1.6,"low":1.4,"ratio":1.5}},"time_ns":10.0,"vendor":"",'
    '"vendor_ns":null}'
)


def test_format_1_is_read_and_format_2_written() -> None:
    read = BankEntry.from_line(FORMAT_1 % "ab")
    assert read.launch == LaunchData("ab")
    assert read.protocol == "hot"
    assert dict(read.evidence) == {"samples": 20, "study": "s"}
    assert read.origin == EntryOrigin() and (read.toolchain, read.output) == ("", "")
    assert json.loads(read.line)["format"] == 2
    assert BankEntry.from_line(read.line) == read
    assert BankEntry.from_line(FORMAT_1 % "").launch is None


def test_evidence_is_read_by_name_whatever_it_holds(entry: MakeEntry) -> None:
    gain = {"ratio": 1.5, "low": None, "high": 2}
    told = {"baseline": {"name": "numpy", **gain}, "as_called": gain, "ties": [{"tile": 4}]}
    evidence = entry(evidence={**told, "samples": 7, "study": "s"}).evidence
    assert (evidence.baseline.over, evidence.baseline.ratio) == ("numpy", 1.5)
    assert evidence.as_called.record() == gain
    assert (evidence.samples, evidence.study, evidence.ties) == (7, "s", [{"tile": 4}])
    names = ("samples", "study", "model", "vector_bytes", "ranking", "replaced")
    odd = {name: [{}] for name in names}
    evidence = entry(evidence=odd).evidence
    assert (evidence.samples, evidence.study, evidence.model) == (None, "", "")
    assert evidence.vector_bytes == 0 and evidence.replaced.met == ""
    assert entry(evidence={}).evidence.replaced is None


def test_a_config_may_be_given_as_it_is(entry: MakeEntry) -> None:
    made = entry(config=Config(tile=8, order="ikj"))
    assert made == entry()
    assert made.line == entry().line


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 0}, "no format number"),
        ({"format": "1"}, "no format number"),
        ({"surplus": 1}, "missing or unknown: surplus"),
        ({"config": []}, "field config"),
        ({"time_ns": "fast"}, "field time_ns"),
        ({"time_ns": True}, "field time_ns"),
        ({"time_ns": float("inf")}, "JSON"),
        ({"evidence": {"samples": float("nan")}}, "JSON"),
        ({"vendor_ns": -1.0}, "vendor_ns is negative"),
        ({"speedup": {"default": 2.0}}, "field speedup"),
        ({"speedup": {"default": {"ratio": 1.0}}}, "field speedup"),
        ({"speedup": {"default": {"ratio": "1", "low": 1, "high": 1}}}, "field speedup"),
        ({"evidence": {"ties": 3}}, "field evidence.ties"),
        ({"evidence": {"ranking": [{"solver": 3}]}}, "field evidence.ranking"),
        ({"evidence": {"ranking": [{"solver": "a", "behind": 2.0}]}}, "field evidence.ranking"),
        ({"evidence": {"baseline": 5}}, "field evidence.baseline"),
        ({"evidence": {"baseline": {"ratio": 1, "low": 1, "high": 1}}}, "field evidence.baseline"),
        ({"evidence": {"as_called": {"ratio": "x"}}}, "field evidence.as_called"),
        ({"solver": "\ud800"}, "surrogate"),
        ({"launch": []}, "field launch"),
        ({"launch": {"symbol": "kernel"}}, "launch: the field artifact is missing"),
        ({"launch": {"artifact": "a", "slots": [1.5]}}, r"launch.slots\[0\]"),
        ({"launch": {"artifact": "a", "more": 1}}, "launch: unknown fields: more"),
        ({"launch": {"artifact": "a", "workspace_bytes": -1}}, "workspace_bytes is negative"),
        ({"launch": {**LAUNCH.record(), "workspace_bytes": -1}}, "workspace_bytes is negative"),
        ({"launch": {**LAUNCH.record(), "slots": [2**63]}}, r"launch.slots\[0\]"),
        ({"launch": {**LAUNCH.record(), "slots": [True]}}, r"launch.slots\[0\]"),
        ({"launch": {**LAUNCH.record(), "abi": None}}, "launch.abi"),
        ({"origin": {"command": 3}}, "origin.command"),
        ({"output": None}, "field output"),
    ],
)
def test_a_wrong_field_is_named(entry: MakeEntry, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        BankEntry.from_record({**entry().record(), **change})


@pytest.mark.parametrize(
    "line",
    [
        *("", "[]", "{", "null", '{"format":NaN}', "[" * 3),
        *("[" * 100_000, "9" * 4301, '{"format":1e309}', '{"solver":"\\ud800"}'),
        *(b"\xff\xfe", b"\x00", b"<<<<<<< ours"),
    ],
)
def test_a_line_that_is_no_entry_is_refused(line: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        BankEntry.from_line(line)


@pytest.mark.parametrize("text", ["1e309", "-1e999", "NaN", "9" * 4301, "[" * 500 + "]" * 500])
def test_a_number_or_a_list_out_of_bounds_is_refused(entry: MakeEntry, text: str) -> None:
    line = entry().line.replace('"alpha":0.01', f'"alpha":{text}')
    with pytest.raises(ValueError, match=r"finite|digits|deep"):
        BankEntry.from_line(line)
