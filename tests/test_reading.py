"""Stored and received data are read within bounds, and errors say where a mistake is."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

import skipjack
from skipjack.errors import MalformedError, SkipjackError
from skipjack.reading import (
    INT64,
    Field,
    file_text,
    number,
    numbered,
    parse_json,
    parse_toml,
    read_json,
    read_toml,
    whole_number,
)

LONG = "1" * 4301


def field(value: object) -> Field:
    return read_json(json.dumps(value), "devices.json")


def test_a_complaint_names_the_file_the_path_and_what_was_found() -> None:
    with pytest.raises(MalformedError) as raised:
        field({"peaks": {"f32": "x"}})["peaks"]["f32"].number()
    assert str(raised.value) == 'devices.json: peaks.f32: expected a number, found "x"'
    with pytest.raises(
        MalformedError, match=r"^devices.json: caches\[1\]: expected a whole number"
    ):
        field({"caches": [1, 1.5]})["caches"][1].integer()
    with pytest.raises(MalformedError, match=r"^devices.json: peaks: the field f64 is missing$"):
        field({"peaks": {}})["peaks"]["f64"]


def test_an_error_is_one_of_ours_and_a_value_error() -> None:
    with pytest.raises(SkipjackError):
        parse_json("{")
    with pytest.raises(ValueError, match=r"^x.json:1: this is not JSON: Expecting"):
        parse_json("{", "x.json")


@pytest.mark.parametrize(
    "text",
    ['{"a":\n [NaN]}', '{"a":\n [1e309]}', '{"a":\n [x]}', '{"a": "b",\n "c": ' + LONG + "}"],
)
def test_a_complaint_about_a_document_names_the_line(text: str) -> None:
    with pytest.raises(MalformedError, match=r"^x.json:2: "):
        parse_json(text, "x.json")
    with pytest.raises(MalformedError, match=r"^line 2: "):
        parse_json(text)
    with pytest.raises(MalformedError, match=r"^x.toml:2: "):
        parse_toml("a = 1\nb = 1e309", "x.toml")


def test_fields_of_every_kind_are_read() -> None:
    document = field({"a": "b", "n": 1, "x": 1.5, "f": True, "l": [1, 2], "o": {"p": None}})
    assert document["a"].text() == "b"
    assert document["n"].integer(least=1, most=1) == 1
    assert document["n"].number() == 1.0
    assert document["x"].number() == 1.5
    assert document["f"].flag() is True
    assert [one.integer() for one in document["l"].elements(2)] == [1, 2]
    assert document["o"].fields()["p"].null
    assert document["o"].mapping() == {"p": None}
    assert document.get("none") is None


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (1, "text"),
        (True, "number"),
        ("1", "number"),
        (None, "number"),
        (True, "integer"),
        (1.0, "integer"),
        (INT64 + 1, "integer"),
        (1, "flag"),
        ({}, "elements"),
        ([], "fields"),
        ("{}", "mapping"),
    ],
)
def test_another_kind_is_refused(value: object, read: str) -> None:
    with pytest.raises(MalformedError, match=r"devices.json: expected"):
        getattr(field(value), read)()


def test_bounds_hold() -> None:
    with pytest.raises(MalformedError, match="expected 0 or more, found -1"):
        field(-1).integer(least=0)
    with pytest.raises(MalformedError, match=r"expected 1.0 or less, found 1.5"):
        field(1.5).number(most=1.0)
    with pytest.raises(MalformedError, match="at most 3 characters, found 4"):
        field("abcd").text(most=3)
    with pytest.raises(MalformedError, match="expected 2 elements, found 1"):
        field([1]).elements(2)


@pytest.mark.parametrize(
    "text",
    [
        *("1e309", "-1e309", "NaN", "Infinity", "-Infinity", LONG, f"-{LONG}", "9" * 41),
        *('"\\ud800"', '{"\\udfff": 1}', '["\ud800"]', b'"\xff"', b'"\xed\xa0\x80"'),
        *("[" * 100_000, '{"a":' * 100_000, "[" * 65 + "]" * 65, ""),
    ],
)
def test_json_that_is_not_bounded_and_finite_is_refused(text: str | bytes) -> None:
    with pytest.raises(MalformedError, match=r"^x.json(:1)?: ") as raised:
        parse_json(text, "x.json")
    assert len(str(raised.value)) < 200
    assert str(raised.value).isascii()


@pytest.mark.parametrize(
    "value", ["\U0001f600 ü", 10**39, [[[1.5]]], [{}] * 1000, {"a": None}, -1e300]
)
def test_json_of_ours_is_read_as_it_was_written(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode()) == value


def test_what_python_writes_is_read_where_that_is_said() -> None:
    assert read_json("[Infinity, 1e309]", finite=False)[0].number() == float("inf")
    with pytest.raises(MalformedError):
        read_json("[Infinity]")
    assert read_json('"\\udcff"', surrogates=True).text() == "\udcff"
    with pytest.raises(MalformedError, match="lone surrogate"):
        read_json('"\\udcff"')


def test_as_deep_as_is_allowed_is_read() -> None:
    assert parse_json("[" * 64 + "1" + "]" * 64)
    assert parse_toml("a = " + "[" * 63 + "1" + "]" * 63)


def test_a_document_that_is_too_large_is_refused() -> None:
    with pytest.raises(MalformedError, match="this has 12 bytes; at most 11 are read"):
        read_json('"0123456789"', most=11)


@pytest.mark.parametrize(
    "text",
    [
        *(f"a = {LONG}", "a = inf", "a = nan", "a = 1e309", "a = 0x" + "f" * 100, "a = ["),
        *("a = " + "[" * 5000, "a = " + "[" * 65 + "]" * 65, b"a = '\xff'", "a = '\ud800'"),
    ],
)
def test_toml_likewise(text: str | bytes) -> None:
    with pytest.raises(MalformedError, match=r"^config.toml(:1)?: ") as raised:
        parse_toml(text, "config.toml")
    assert len(str(raised.value)) < 200


def test_toml_is_read_field_by_field() -> None:
    assert read_toml("[a]\nb = 1", "x.toml")["a"]["b"].integer() == 1


def test_whole_numbers_in_texts() -> None:
    assert whole_number("-012") == -12
    for text in ("", "1_000", "\u0661", " 1", "1.0", "1" * 41, LONG):
        with pytest.raises(MalformedError, match=r"^units: expected a whole number"):
            whole_number(text, "units")


def test_numbers_in_texts() -> None:
    assert [number(text) for text in ("1", "1.", ".5", "-1e3", "+1.5E-3")] == [
        *(1.0, 1.0, 0.5, -1000.0, 0.0015)
    ]
    for text in ("", ".", "nan", "inf", "1e309", "1_0", "\u0661", "e1", "1 "):
        with pytest.raises(MalformedError, match=r"^watts: expected a finite number"):
            number(text, "watts")


def test_a_file_is_read_in_bounds(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"abc")
    assert file_text(path) == "abc"
    with pytest.raises(MalformedError, match="more than 2 bytes"):
        file_text(path, most=2)
    path.write_bytes(b"\xff")
    with pytest.raises(MalformedError, match="not UTF-8"):
        file_text(path)


class Phase(StrEnum):
    DONE = "done"


@dataclass(frozen=True)
class Inner:
    name: str
    size: int = 0


@dataclass(frozen=True)
class Outer:
    phase: Phase
    inner: tuple[Inner, ...]
    pair: tuple[str, int]
    seconds: float | None = None
    counts: Mapping[str, int] = default(default_factory=dict)
    value: bool | int | str = False
    anything: Any = None


WHOLE: dict[str, Any] = {"phase": "done", "inner": [{"name": "a"}], "pair": ["x", 1]}


def test_an_object_is_read_as_a_dataclass_by_its_annotations() -> None:
    assert field(WHOLE).of(Outer) == Outer(Phase.DONE, (Inner("a"),), ("x", 1))
    more = {"seconds": 1, "counts": {"a": 2}, "value": "x", "anything": [None]}
    assert field({**WHOLE, **more}).of(Outer) == Outer(
        Phase.DONE, (Inner("a"),), ("x", 1), 1.0, {"a": 2}, "x", [None]
    )


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"phase": "x"}, 'phase: expected one of done, found "x"'),
        ({"inner": [{"name": 1}]}, r"inner\[0\].name: expected a text, found 1"),
        ({"inner": [{}]}, r"inner\[0\]: the field name is missing"),
        ({"pair": ["x"]}, "pair: expected 2 elements, found 1"),
        ({"seconds": "1"}, 'seconds: expected a number, found "1"'),
        ({"counts": {"a": None}}, "counts.a: expected a whole number, found null"),
        ({"value": 1.5}, r"value: expected a text, found 1.5"),
        ({"odd": 1}, "unknown fields: odd"),
    ],
)
def test_what_does_not_fit_a_dataclass_is_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(MalformedError, match=f"^devices.json: {complaint}$"):
        field({**WHOLE, **change}).of(Outer)


OF_THEIR_OWN = {
    "execute/command_supervisor.py",  # reads what its own parent writes, and is to start quickly
    "solvers/vendor/tvm/metaschedule.py",  # runs in TVM's own Python, without Skipjack
    "sweep/engine/search_loop.py",  # its own encoding, never outside of the process
    "testing/fake_gpu.py",
}


def test_nothing_else_parses_json_or_toml() -> None:
    root = Path(skipjack.__file__).parent
    parsing = re.compile(
        r"\bjson\.(?:loads?|JSONDecoder)\(|\btomllib\.loads?\(|\byaml\.(?:safe_)?load"
    )
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if parsing.search(path.read_text(encoding="utf-8"))
    }
    assert found - OF_THEIR_OWN == {"reading/documents.py"}


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "problem", "1 problem"),
        (0, "problem", "0 problems"),
        (2, "entry", "2 entries"),
        (2, "study", "2 studies"),
        (1, "query", "1 query"),
        (3, "key", "3 keys"),
        (2, "search", "2 searches"),
        (5, "more line", "5 more lines"),
    ],
)
def test_a_number_of_things(count: int, noun: str, text: str) -> None:
    assert numbered(count, noun) == text
