"""Tables of records: filtering, sorting and pages."""

from dataclasses import dataclass

import pytest

from skipjack.app.views import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.errors import UsageError


@dataclass(frozen=True)
class _Animal:
    name: str
    legs: int | None


COLUMNS = (
    ViewColumn[_Animal]("name", "Name", lambda one: one.name, filterable=True),
    ViewColumn[_Animal]("legs", "Legs", lambda one: one.legs, unit="count"),
)
ROWS = [_Animal("Ant", 6), _Animal("cat", 4), _Animal("worm", None), _Animal("bat", 2)]


def page(**request: object) -> RecordTable[_Animal]:
    return table_of("animals", COLUMNS, ROWS, TableRequest(**request))  # type: ignore[arg-type]


def test_rows_are_sorted_and_unknown_values_come_last() -> None:
    assert [one.legs for one in page(sort="legs").rows] == [2, 4, 6, None]
    assert [one.legs for one in page(sort="legs", descending=True).rows] == [6, 4, 2, None]
    assert [one.name for one in page(sort="name").rows] == ["Ant", "bat", "cat", "worm"]


def test_filters_find_parts_of_texts_in_any_case() -> None:
    found = page(filters={"name": "AT"})
    assert [one.name for one in found.rows] == ["cat", "bat"]
    assert found.total == 2


def test_filters_find_zero_and_false() -> None:
    columns = (
        ViewColumn[int]("number", "number", lambda one: one, filterable=True),
        ViewColumn[int]("odd", "odd", lambda one: one % 2 == 1, filterable=True),
    )
    for filters in ({"number": "0"}, {"odd": "false"}):
        found = table_of("numbers", columns, [0, 1], TableRequest(filters=filters))
        assert found.rows == [0]


def test_a_whole_table_is_one_page() -> None:
    found = page(whole=True, size=3)
    assert (len(found.rows), found.pages) == (4, 1)


def test_pages_divide_the_rows() -> None:
    found = [page(size=3, page=number) for number in (1, 2, 3)]
    assert [len(one.rows) for one in found] == [3, 1, 0]
    assert {one.pages for one in found} == {2}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"page": 10**9 + 1}, "page 1000000001 does not exist"),
        ({"sort": "wings"}, "cannot sort by 'wings'; choose one of name, legs"),
        ({"filters": {"legs": "2"}}, "cannot filter by 'legs'; columns with a filter: name"),
        ({"page": 0}, "page 0 does not exist"),
        ({"size": 5_000}, "a page has 1 to 1000 rows"),
    ],
)
def test_wrong_requests_say_what_is_possible(request_: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        page(**request_)
