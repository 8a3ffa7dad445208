"""Text databases come back byte for byte."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.interop.miopen import (
    DatabaseRecord,
    RecordItem,
    read_text,
    read_text_db,
    scan,
    write_text_db,
)
from skipjack.interop.miopen.text_db import Form, in_canonical_order, text_bytes

_BESIDE = Path(__file__).parents[4] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

KEYS = st.text(st.characters(blacklist_characters="=\n\r\0\ufeff"), min_size=1).filter(
    lambda text: not text.isspace()
)
IDS = st.text(st.characters(blacklist_characters=":;\n\r\0"), min_size=1)
VALUES = st.text(st.characters(blacklist_characters=";\n\r\0"))
RECORDS = st.builds(
    DatabaseRecord,
    KEYS,
    st.lists(st.builds(RecordItem, IDS, VALUES), min_size=1, max_size=4).map(tuple),
)
FORMS = st.builds(Form, st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())


def encodable(record: DatabaseRecord) -> bool:
    try:
        record.line.encode()
    except UnicodeEncodeError:
        return False
    return True


def again(data: bytes, *, sort: bool = True) -> bytes:
    found = scan(data, Path("x"))
    records = [line.record for line in found.lines if line.record]
    return text_bytes(records, sort=sort, form=found.form)


@given(st.lists(RECORDS.filter(encodable), max_size=5), FORMS)
def test_what_is_written_is_read_again(records: list[DatabaseRecord], form: Form) -> None:
    data = text_bytes(records, sort=False, form=form)
    found = scan(data, Path("x"))
    assert [line.record for line in found.lines] == records
    if len(records) > 1:  # one line without an end does not say how lines end
        assert found.form == form
    assert again(data, sort=False) == data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a=x:1\nb=y:2\n",
        b"a=x:1\nb=y:2",
        b"a=x:1\r\nb=y:2\r\n",
        b"a=x:1\r\nb=y:2\r",
        b"a=x:1\r",
        b"\xef\xbb\xbfa=x:1\nb=y:2\n",
        b"a=caf\xe9:1\xff\n",
        b"a=x:1;\nb=;y:2;;z:3\n",
        b"a=x:1\nb=y:2\r\n",
        b"a=x:\nb=y:p=q:r <64, 32>+128[2]\n",
        b"F_g1=x:1\nF_g16=x:1\n",
        b"F_g16=x:1\nF_g1=x:1\n",
        b"a=x:1\na=x:1\na=x:0\n",
    ],
)
def test_a_sorted_file_keeps_its_bytes(data: bytes) -> None:
    assert again(data) == data


def test_both_orders_of_keys_where_one_begins_with_another_are_canonical() -> None:
    short, long = (
        DatabaseRecord("F_g1", [RecordItem("x", "1")]),
        DatabaseRecord("F_g16", [RecordItem("x", "1")]),
    )
    assert in_canonical_order([short, long]) == [short, long]
    assert in_canonical_order([long, short]) == [long, short]  # as `sort` orders whole lines


def test_other_orders_become_sorted_and_equal_keys_stay_in_their_order() -> None:
    assert again(b"c=x:1\na=x:2\nb=x:3\na=x:1\n") == b"a=x:2\na=x:1\nb=x:3\nc=x:1\n"
    assert again(b"c=x:1\na=x:2\n", sort=False) == b"c=x:1\na=x:2\n"


def test_items_keep_their_order_and_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.fdb.txt"
    path.write_text("key=Solver<3, 6>:1e-05,0,a b;Early:nan,-1,[x]+1\n")
    (record,) = read_text_db(path)
    assert record.items == (
        RecordItem("Solver<3, 6>", "1e-05,0,a b"),
        RecordItem("Early", "nan,-1,[x]+1"),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a=x:1\nb\n", ":2: 'b': it has no '='"),
        ("a=x:1\n\n=x:1\n", ":3: '=x:1': it has no key"),
        ("a=\n", ":1: 'a=': it has no items after"),
        ("a=x:1;y\n", ":1: 'a=x:1;y': 'y' is not of the form id:values"),
        ("a=:1\n", ":1: 'a=:1': ':1' is not of the form"),
        ("a=x:1\nb=y:2;mio", ":2: .* the file seems to be truncated there"),
    ],
)
def test_a_bad_line_is_named_by_its_number(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "x.fdb.txt"
    path.write_text(text)
    with pytest.raises(CorruptFileError, match=f"x.fdb.txt{complaint}"):
        read_text_db(path)


def test_blank_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.db.txt"
    path.write_text("\na=x:1\n  \nb=x:1\n")
    found = read_text(path)
    assert (found.lines, found.blank_lines) == ([2, 4], 2)


def test_what_is_no_text_is_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "x.fdb.txt"
    path.write_bytes(b"a=x:1\n\0\0")
    with pytest.raises(CorruptFileError, match="not a text database"):
        read_text_db(path)
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(StorageError, match=r"is a Git LFS pointer, .* git lfs pull"):
        read_text_db(path)
    with pytest.raises(StorageError, match="does not exist"):
        read_text_db(tmp_path / "none.fdb.txt")
    with pytest.raises(StorageError, match="is a directory"):
        read_text_db(tmp_path)


@pytest.mark.parametrize(
    ("key", "items"),
    [
        ("a=b", [RecordItem("x", "1")]),
        ("", [RecordItem("x", "1")]),
        ("a", []),
        ("a", [RecordItem("x:y", "1")]),
        ("a", [RecordItem("x", "1;2")]),
        ("a", [RecordItem("x", "1\n")]),
    ],
)
def test_a_record_that_could_not_be_read_back_cannot_be_made(
    key: str, items: list[RecordItem]
) -> None:
    with pytest.raises(UsageError):
        DatabaseRecord(key, items)


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.fdb.txt"
    write_text_db(path, [DatabaseRecord("a", [RecordItem("x", "1")])])
    with pytest.raises(UsageError, match="is not a valid character"):
        write_text_db(path, [DatabaseRecord("b", [RecordItem("\ud800", "1")])])
    assert path.read_text() == "a=x:1\n"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not FOLDER, reason="no databases are here; name a folder in FIND_DBS")
def test_real_files_come_back() -> None:
    for path in Path(FOLDER).glob("*db.txt"):
        data = path.read_bytes()
        assert again(data, sort=False) == data, path
        once = again(data)
        assert again(once) == once
        assert sorted(once.splitlines()) == sorted(data.splitlines())
