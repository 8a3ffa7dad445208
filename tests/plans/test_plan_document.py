"""YAML is read as written, or refused with the line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import SkipjackError, UsageError
from skipjack.plans.plan import LARGEST_BYTES, Scalar, Table, parse_document, read_document


def value_of(text: str) -> str:
    root = parse_document(f"key: {text}\n", "p.yaml")
    assert isinstance(root, Table)
    node = root.entries[0][1]
    assert isinstance(node, Scalar)
    return node.text


@pytest.mark.parametrize(
    "text", ["6.20", "no", "on", "0x10", "1_000", "12:30:45", "010", "1e3", "2026-11-15", ".5", "="]
)
def test_a_value_is_the_text_that_was_written(text: str) -> None:
    assert value_of(text) == text


def test_quotes_make_a_text_of_what_would_be_nothing() -> None:
    for text, empty in (("~", True), ("null", True), ("", True), ("'null'", False), ('""', False)):
        root = parse_document(f"key: {text}\n", "p.yaml")
        assert isinstance(root, Table)
        node = root.entries[0][1]
        assert isinstance(node, Scalar)
        assert node.empty is empty, text


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: 2\na: 3\n", "p.yaml:3: duplicate key 'a', first in line 1"),
        ("a-b: 1\na_b: 2\n", "p.yaml:2: duplicate key 'a_b'"),
        ("x: {a: 1, a: 1}\n", "p.yaml:1: duplicate key 'a'"),
        ("a: &here 1\nb: *here\n", "p.yaml:1: anchors and aliases"),
        ("a: *nowhere\n", "p.yaml:1: anchors and aliases"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", "p.yaml:2: tags such as"),
        ("a: !mine 1\n", "p.yaml:1: tags such as !mine"),
        ("a:\n\tb: 1\n", "p.yaml:2: a tab where YAML requires spaces"),
        ("a: [1, 2\nb: 3\n", "p.yaml:2: not YAML"),
        ("a: 'open\n", "p.yaml:2: not YAML"),
        ("a: b: c\n", "p.yaml:1: not YAML: mapping values are not allowed here"),
        ("a: 1\n---\nb: 2\n", "p.yaml:2: a second document begins"),
        ("? [a]\n: 1\n", "p.yaml:1: a key must be a word"),
        ("a: 1\nb: \x07\n", "p.yaml:2: the character '\\x07' is not allowed"),
        ("a: " + "[" * 50 + "]" * 50, "p.yaml:1: nested more than 8 levels deep"),
        ("# nothing\n", "p.yaml is empty"),
    ],
)
def test_what_is_refused_is_named_by_its_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_document(text, "p.yaml")
    assert str(caught.value).startswith(complaint)


def test_a_billion_laughs_are_refused_at_the_first(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    path = tmp_path / "laughs.yaml"
    path.write_text("\n".join(lines))
    with pytest.raises(UsageError, match=":1: anchors"):
        read_document(path)


def test_files_that_no_person_wrote_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    for data, complaint in (
        (b"#" * (LARGEST_BYTES + 1), "has more than 256 KiB"),
        (b"a: 1\nb: \xff\n", ":2: not UTF-8"),
    ):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=complaint):
            read_document(path)
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    assert read_document(path) == Table(((Scalar("a", 1), Scalar("1", 1)),), 1)
    with pytest.raises(UsageError, match=r"there is no plan .*none.yaml; skipjack plan init"):
        read_document(tmp_path / "none.yaml")
    with pytest.raises(SkipjackError, match="cannot read"):
        read_document(tmp_path)


@given(st.text(alphabet="ab:-{}[],&*!|>'\"#%@` \n\t~?", max_size=40))
def test_any_text_is_read_or_refused_in_a_sentence(text: str) -> None:
    try:
        parse_document(text, "p.yaml")
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(error).startswith("p.yaml")
