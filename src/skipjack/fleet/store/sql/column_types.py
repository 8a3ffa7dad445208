"""Column types that databases spell differently, and columns that hold JSON."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, LargeBinary, String, Text
from sqlalchemy.ext.compiler import compiles

from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.reading import parse_json

# Types of columns that databases spell differently.


class RowId(BigInteger):
    """A key that the database generates, and references to it."""


class ShortText(String):
    """A short, case-sensitive text: f16 and F16 are different."""


class LongText(Text):
    """A text of any length."""


class LongBytes(LargeBinary):
    """Bytes of any length."""


@compiles(RowId)
def _row_id(type_: RowId, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).row_id or str(compiler.visit_BIGINT(type_, **options))


@compiles(ShortText)
def _name(type_: ShortText, compiler: Any, **options: Any) -> str:
    spelled = dialect_of(compiler.dialect).name_type(type_.length or 0)
    return spelled or str(compiler.visit_VARCHAR(type_, **options))


@compiles(LongText)
def _long_text(type_: LongText, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).long_text or str(compiler.visit_text(type_, **options))


@compiles(LongBytes)
def _long_bytes(type_: LongBytes, compiler: Any, **options: Any) -> str:
    spelled = dialect_of(compiler.dialect).long_bytes
    return spelled or str(compiler.visit_large_binary(type_, **options))


# JSON in columns, which is read as untrusted input.


def parse_stored(text: str) -> Any:
    """Parse the JSON of a column; `MalformedError` if it is invalid."""
    return parse_json(text, "the store", surrogates=True)
