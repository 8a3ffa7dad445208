"""The API: JSON from the same records as the pages, and actions for programs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import skipjack
from skipjack.app.views import Workspace
from skipjack.errors import UsageError
from skipjack.web.action_requests import RESET_FIELDS, ActionRequest, perform, question
from skipjack.web.api.metrics import CONTENT_TYPE, metrics_text
from skipjack.web.api.openapi import FORMAT, PREFIX, openapi
from skipjack.web.api.records import to_json
from skipjack.web.api.routes import (
    ACTION_ROUTES,
    RECORDS,
    TABLES,
    ActionRoute,
    ApiCall,
    RecordRoute,
    TableRoute,
)
from skipjack.web.content import TableSection
from skipjack.web.failures import refused
from skipjack.web.forms import read_object
from skipjack.web.options import WebOptions
from skipjack.web.responses import csv_response, tag_of, tagged, unless_known
from skipjack.web.security import action_reason, person_name
from skipjack.web.tables import CSV, table_request
from skipjack.web.workspaces import WorkspaceReaders

Endpoint = Callable[[Request], Awaitable[Response]]
_JSON = "application/json"


def api_routes(options: WebOptions, readers: WorkspaceReaders) -> tuple[Route, ...]:
    """The addresses of the API and of the metrics."""
    found = [
        Route(f"{PREFIX}/openapi.json", _openapi, methods=["GET"]),
        *(_table(route, readers) for route in TABLES),
        *(_action(route, options, readers) for route in ACTION_ROUTES),
        *(_record(route, readers) for route in RECORDS),
        Route("/metrics", _metrics(readers), methods=["GET"]),
    ]
    # Names may have slashes: a path with something after the name comes before one without.
    return tuple(sorted(found, key=lambda route: -route.path.count("/")))


async def _openapi(request: Request) -> Response:
    return tagged(request, json.dumps(openapi(), indent=1).encode(), _JSON)


def _address(path: str) -> str:
    # Names of labels and machines may have slashes.
    return PREFIX + path.replace("{name}", "{name:path}")


def _call(request: Request) -> ApiCall:
    names = {name: str(value) for name, value in request.path_params.items()}
    return ApiCall(names, dict(request.query_params))


def _body(name: str, content: Any) -> bytes:
    return json.dumps({"format": FORMAT, name: content}, ensure_ascii=False).encode(
        "utf-8", "replace"
    )


def _table(route: TableRoute, readers: WorkspaceReaders) -> Route:
    async def answer(request: Request) -> Response:
        call = _call(request)
        query = {name: text for name, text in call.query.items() if name not in own}

        def section(workspace: Workspace) -> TableSection:
            return TableSection(
                route.path.rpartition("/")[2],
                route.text,
                lambda asked: route.read(workspace, call, asked),
                main=True,
            )

        if query.get(CSV):
            wanted = {name: text for name, text in query.items() if name != CSV}
            return await csv_response(readers, await readers.run(section), wanted)

        def read(workspace: Workspace) -> bytes:
            table = section(workspace)
            return _body("table", to_json(table.read(table_request(table, query))))

        return tagged(request, await readers.run(read), _JSON)

    own = {one.name for one in route.parameters}
    return Route(_address(route.path), answer, methods=["GET"])


def _record(route: RecordRoute, readers: WorkspaceReaders) -> Route:
    needed = [one.name for one in route.parameters if one.required]

    async def answer(request: Request) -> Response:
        call = _call(request)
        missing = [name for name in needed if not call.get(name)]
        if missing:
            raise UsageError(f"add the parameter {missing[0]}")

        def read(workspace: Workspace) -> Response:
            if (mark := route.mark) is None:
                return tagged(request, body(workspace), _JSON)
            tag = tag_of(f"{skipjack.__version__} {mark(workspace, call)}".encode())
            return unless_known(request, tag, lambda: Response(body(workspace), media_type=_JSON))

        def body(workspace: Workspace) -> bytes:
            return _body("record", to_json(route.read(workspace, call)))

        return await readers.run(read)

    return Route(_address(route.path), answer, methods=["GET"])


def _action(route: ActionRoute, options: WebOptions, readers: WorkspaceReaders) -> Route:
    async def act(request: Request) -> Response:
        if not options.token:
            said = "this server has no token, so that it can only be read"
            return refused(request, 403, f"{said}; start it with --token-file")
        if not request.state.by_token:
            # A cookie alone does not show that the request is meant.
            return refused(request, 401, "send the token as Authorization: Bearer TOKEN")
        asked = _requested_action(route, _call(request), await read_object(request))

        def do(workspace: Workspace) -> Any:
            question(workspace, asked)
            return to_json(perform(workspace, asked))

        return JSONResponse({"format": FORMAT, "record": await readers.run(do)})

    return Route(_address(route.path), act, methods=["POST"])


def _requested_action(route: ActionRoute, call: ApiCall, given: Mapping[str, Any]) -> ActionRequest:
    fields = _fields(route)
    for name, value in given.items():
        if name not in fields:
            raise UsageError(f"unknown field {name!r}; choose from {', '.join(fields)}")
        if not isinstance(value, str):
            raise UsageError(f"{name} is not a text")
    by = person_name(given.get("by", ""))
    if not by:
        raise UsageError("add the field by: your name, which is recorded with the action")
    target = call.get("id") if route.kind == "job" else call.get("name")
    reason = action_reason(given.get("reason", ""))
    chosen = {name: given[name] for name in RESET_FIELDS if name in given}
    return ActionRequest(route.kind, target, route.action, by, reason, chosen)


def _fields(route: ActionRoute) -> tuple[str, ...]:
    if not route.is_reset:
        return ("by", "reason")
    return ("by", "to", "state", "device") if route.asks_state else ("by", "to")


def _metrics(readers: WorkspaceReaders) -> Endpoint:
    async def answer(request: Request) -> Response:
        text = await readers.run(metrics_text)
        return Response(text, headers={"content-type": CONTENT_TYPE})

    return answer
