"""Pages that ask before an action, and do it when it is confirmed."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from skipjack.app.views import Workspace
from skipjack.web.action_requests import (
    RESET_FIELDS,
    ActionOutcome,
    ActionRequest,
    perform,
    question,
)
from skipjack.web.content import PageLink
from skipjack.web.failures import refused
from skipjack.web.forms import read_form
from skipjack.web.rendering import Viewer, render
from skipjack.web.security import action_reason
from skipjack.web.workspaces import WorkspaceReaders

_PATH = "/actions/{kind}/{target:path}/{action}"


def action_routes(
    readers: WorkspaceReaders, viewer_of: Callable[[Request], Viewer]
) -> tuple[Route, ...]:
    """The addresses of actions, for servers with a token."""

    async def ask(request: Request) -> Response:
        viewer = viewer_of(request)
        if viewer.session is None:
            return _log_in_first(request, viewer)
        asked = _requested_action(request, viewer.session.name)
        prompt = await readers.run(lambda workspace: question(workspace, asked))
        return HTMLResponse(
            render(
                "confirm.html",
                viewer,
                prompt.back,
                title=prompt.title,
                text=prompt.text,
                warning=prompt.warning,
                action=request.url.path,
                choices=prompt.choices,
                asks_reason=prompt.asks_reason,
                verb=prompt.verb,
                back=prompt.back,
            )
        )

    async def act(request: Request) -> Response:
        viewer = viewer_of(request)
        if viewer.session is None:
            return _log_in_first(request, viewer)
        form = await read_form(request)
        if not viewer.session.has_sent(form.get("csrf", "")):
            sentence = "the form is not from this page, or is from an earlier login; load it again"
            return refused(request, 403, sentence, viewer)
        asked = _requested_action(request, viewer.session.name, form)
        back, done = await readers.run(lambda workspace: _do(workspace, asked))
        if done.complete:
            return RedirectResponse(back, 303)
        links = [PageLink(f"Back to {asked.kind} {asked.target}", back)]
        return refused(request, 409, done.message, viewer, links)

    return (Route(_PATH, ask, methods=["GET"]), Route(_PATH, act, methods=["POST"]))


def _requested_action(
    request: Request, by: str, form: dict[str, str] | None = None
) -> ActionRequest:
    names, given = request.path_params, form or {}
    fields: dict[str, str] = {name: given[name] for name in RESET_FIELDS if name in given}
    reason = action_reason(given.get("reason", ""))
    return ActionRequest(names["kind"], names["target"], names["action"], by, reason, fields)


def _do(workspace: Workspace, asked: ActionRequest) -> tuple[str, ActionOutcome]:
    back = question(workspace, asked).back
    return back, perform(workspace, asked)


def _log_in_first(request: Request, viewer: Viewer) -> Response:
    return refused(request, 403, "log in with your name before you act", viewer)
