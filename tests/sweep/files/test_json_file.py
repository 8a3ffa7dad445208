"""Sweep files in JSON: what is read, and one sentence with the line for what cannot be."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skipjack.errors import UsageError
from skipjack.sweep.files import read_sweep_file

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> Path:
        path = tmp_path / "rnnt.json"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_names_and_values_keep_their_order(write: Write) -> None:
    file = read_sweep_file(write('{"b": [2, 1],\n "a": ["x", null, true]}'))
    assert list(file.parameters.items()) == [("b", (2, 1)), ("a", ("x", None, True))]
    assert file.no_rebuild is None
    assert file.search is None
    assert file.name == "rnnt"
    assert file.where("a").endswith("rnnt.json:2")


def test_one_and_true_and_one_point_zero_are_three_values(write: Write) -> None:
    (values,) = read_sweep_file(write('{"a": [1, 1.0, true]}')).parameters.values()
    assert [type(value) for value in values] == [int, float, bool]


def test_an_edited_file_has_another_digest(write: Write) -> None:
    first = read_sweep_file(write('{"a": [1]}')).digest
    assert first != read_sweep_file(write('{"a": [2]}')).digest


def test_an_empty_object_and_empty_lists_are_fine(write: Write) -> None:
    assert read_sweep_file(write("{}")).parameters == {}
    assert read_sweep_file(write('{"a": []}')).parameters == {"a": ()}


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "windows.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1]}')
    assert read_sweep_file(path).parameters == {"a": (1,)}


def test_repeated_values_stay_and_are_remarked_upon(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_sweep_file(write('{"a": [1, 1.0, 1]}')).parameters == {"a": (1, 1.0, 1)}
    assert "a lists 1 more than once" in caplog.text


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ('{"a": [1],\n"a": [2]}', 2, "'a' is defined twice"),
        ('{"a": [1],\n\n"b": [1,]}', 3, "this is not JSON"),
        ('{"a": [1],\n"b": 7}', 2, "b is 7; write a list"),
        ('{"a": {"from": 1}}', 1, "write a list"),
        ('{"a": [1],\n "b": [[1]]}', 2, "b has a list among its values"),
        ('{"b": [{"x": 1}]}', 1, "b has a dict among its values"),
        ('{"a":\n [NaN]}', 2, "NaN is not a finite number"),
        ('{"a": [1e999]}', 1, "1e999 is not a finite number"),
        ("[1, 2]", None, "must contain an object"),
        ("", 1, "this is not JSON"),
        ('{"a": ' + "[" * 100_000, None, "nested more than 64 levels deep"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_line(
    write: Write, text: str, line: int | None, complaint: str
) -> None:
    path = write(text)
    with pytest.raises(UsageError) as caught:
        read_sweep_file(path)
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(caught.value).startswith(place)
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    for name, complaint in [
        ("missing.json", "does not exist"),
        ("binary.json", "is not UTF-8"),
        ("", "use .json, .py or .toml"),
    ]:
        with pytest.raises(UsageError, match=complaint):
            read_sweep_file((tmp_path / name) if name else write_yaml(tmp_path))


def write_yaml(directory: Path) -> Path:
    path = directory / "sweep.yaml"
    path.write_text("a: [1]")
    return path
