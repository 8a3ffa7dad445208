"""Types of columns that databases spell differently."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, LargeBinary, String, Text
from sqlalchemy.ext.compiler import compiles

from skipjack.fleet.store.sql.dialect import dialect_of


class RowId(BigInteger):
    """A key that the database counts up, and references to it."""


class ShortText(String):
    """A text that identifies something: f16 and F16 are different."""


class LongText(Text):
    """A text of any length."""


class LongBytes(LargeBinary):
    """Bytes of any length."""


@compiles(RowId)
def _row_id(type_: RowId, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).row_id or str(compiler.visit_BIGINT(type_, **options))


@compiles(ShortText)
def _name(type_: ShortText, compiler: Any, **options: Any) -> str:
    said = dialect_of(compiler.dialect).name_type(type_.length or 0)
    return said or str(compiler.visit_VARCHAR(type_, **options))


@compiles(LongText)
def _long_text(type_: LongText, compiler: Any, **options: Any) -> str:
    return dialect_of(compiler.dialect).long_text or str(compiler.visit_text(type_, **options))


@compiles(LongBytes)
def _long_bytes(type_: LongBytes, compiler: Any, **options: Any) -> str:
    said = dialect_of(compiler.dialect).long_bytes
    return said or str(compiler.visit_large_binary(type_, **options))
