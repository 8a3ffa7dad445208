"""The OpenAPI file of the API, made from its table of routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import skipjack
from skipjack.app.views import MOST_ROWS, ViewColumn
from skipjack.fleet.model import JobState
from skipjack.web.api.records import Schema, SchemaBook, table_schema
from skipjack.web.api.routes import (
    ACTION_ROUTES,
    RECORDS,
    TABLES,
    ActionRoute,
    ApiParameter,
    RecordRoute,
    TableRoute,
)
from skipjack.web.security import LONGEST_REASON

PREFIX = "/api/v1"
FORMAT = 1
"""The version of the answers, which is part of each."""
_ERRORS = {
    "400": "The request is wrong",
    "401": "The token is missing or wrong",
    "404": "There is no such thing, or no such source",
    "429": "Too many wrong tokens",
    "503": "The database cannot be read",
}
_FAILURE: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string"}},
}


def openapi() -> dict[str, Any]:
    """The API as OpenAPI 3.1."""
    book = SchemaBook()
    paths: dict[str, Any] = {}
    for table in TABLES:
        paths[f"{PREFIX}{table.path}"] = {"get": _table(table)}
    for record in RECORDS:
        paths[f"{PREFIX}{record.path}"] = {"get": _record(record, book)}
    for action in ACTION_ROUTES:
        paths[f"{PREFIX}{action.path}"] = {"post": _action(action)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Skipjack",
            "version": skipjack.__version__,
            "description": "What the pages of skipjack web show. Times are in nanoseconds, points "
            "in time in seconds since 1970, unless a field says otherwise.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{}, {"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {**dict(sorted(book.schemas.items())), "Failure": _FAILURE},
        },
    }


def _operation(id: str, text: str, parameters: Sequence[Schema], answer: Schema) -> Schema:
    failure = {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}}
    return {
        "operationId": id,
        "summary": text,
        "parameters": list(parameters),
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": answer}}},
            **{
                status: {"description": said, "content": failure}
                for status, said in _ERRORS.items()
            },
        },
    }


def _id(path: str, verb: str) -> str:
    words = path.replace("{", "").replace("}", "").replace("/", "_").strip("_")
    return f"{verb}_{words}"


def _parameter(one: ApiParameter, path: str) -> Schema:
    in_path = f"{{{one.name}}}" in path
    schema: Schema = {"type": "string"}
    if one.name == "id":
        schema = {"type": "integer", "minimum": 1}
    elif one.required:
        schema["minLength"] = 1
    return {
        "name": one.name,
        "in": "path" if in_path else "query",
        "required": in_path or one.required,
        "description": one.text,
        "schema": schema,
        **(
            {"example": int(one.example) if one.name == "id" else one.example}
            if one.example
            else {}
        ),
    }


def _query(name: str, text: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "required": False, "description": text, "schema": schema}


def _envelope(name: str, content: Schema) -> Schema:
    return {
        "type": "object",
        "required": ["format", name],
        "properties": {"format": {"const": FORMAT}, name: content},
    }


def _table(route: TableRoute) -> Schema:
    sorts = [one.name for one in route.columns if one.sortable]
    page = {"type": "integer", "minimum": 1}
    asked = [
        *(_parameter(one, route.path) for one in route.parameters),
        _query("sort", "the column to sort by", {"enum": sorts}),
        _query("desc", "1: in descending order", {"enum": ["0", "1"]}),
        _query("page", "the page, from 1", page),
        _query("rows", "rows in a page", {**page, "maximum": MOST_ROWS}),
        *(_filter(one) for one in route.columns if one.filterable),
    ]
    answer = _envelope("table", table_schema(route.columns))
    return _operation(_id(route.path, "list"), route.text, asked, answer)


def _filter(column: ViewColumn[Any]) -> Schema:
    return _query(column.name, f"only rows with this {column.title}", {"type": "string"})


def _record(route: RecordRoute, book: SchemaBook) -> Schema:
    asked = [_parameter(one, route.path) for one in route.parameters]
    answer = _envelope("record", book.of(route.record))
    return _operation(_id(route.path, "get"), route.text, asked, answer)


def _action(route: ActionRoute) -> Schema:
    states = [str(state) for state in JobState]
    properties: dict[str, Schema] = {"by": {"type": "string", "description": "your name"}}
    required = ["by"]
    if route.is_reset:
        properties["to"] = {"enum": ["new", "built"]}
        required.append("to")
    else:
        properties["reason"] = {"type": "string", "maxLength": LONGEST_REASON}
    if route.asks_state:
        properties["state"] = {"enum": states}
        properties["device"] = {"type": "string"}
        required.append("state")
    asked = [_parameter(one, route.path) for one in route.parameters]
    done = {
        "type": "object",
        "required": ["jobs", "message", "complete"],
        "properties": {
            "jobs": {"type": "integer"},
            "message": {"type": "string"},
            "complete": {"type": "boolean"},
        },
    }
    operation = _operation(_id(route.path, "do"), route.text, asked, _envelope("record", done))
    body = {"type": "object", "required": required, "properties": properties}
    failure = operation["responses"]["400"]
    operation["requestBody"] = {
        "required": True,
        "content": {"application/json": {"schema": body}},
    }
    operation["responses"] |= {
        "403": {**failure, "description": "The server has no token, or the request is foreign"},
        "409": {**failure, "description": "Not possible in the present state"},
        "413": {**failure, "description": "The body is too large"},
        "415": {**failure, "description": "The body is not JSON"},
    }
    operation["security"] = [{"token": []}]
    return operation
