"""Pages that ask before an action, and do it when it is confirmed."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from skipjack.app.views import Workspace
from skipjack.errors import UsageError
from skipjack.web.content import PageLink, PageNotFoundError
from skipjack.web.deeds import RESET_FIELDS, ActionPrompt, Deed, DeedResult, perform, question
from skipjack.web.failures import refused
from skipjack.web.forms import read_form
from skipjack.web.rendering import Viewer, render
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
        deed = _deed(request, viewer.session.name)
        asked = await readers.run(lambda workspace: _question(workspace, deed))
        return HTMLResponse(
            render(
                "confirm.html",
                viewer,
                asked.back,
                title=asked.title,
                text=asked.text,
                warning=asked.warning,
                action=request.url.path,
                choices=asked.choices,
                asks_reason=asked.asks_reason,
                verb=asked.verb,
                back=asked.back,
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
        deed = _deed(request, viewer.session.name, form)
        back, done = await readers.run(lambda workspace: _do(workspace, deed))
        if done.whole:
            return RedirectResponse(back, 303)
        links = [PageLink(f"Back to {deed.kind} {deed.target}", back)]
        return refused(request, 409, done.said, viewer, links)

    return (Route(_PATH, ask, methods=["GET"]), Route(_PATH, act, methods=["POST"]))


def _deed(request: Request, by: str, form: dict[str, str] | None = None) -> Deed:
    names, given = request.path_params, form or {}
    fields: dict[str, str] = {name: given[name] for name in RESET_FIELDS if name in given}
    reason = " ".join(given.get("reason", "").split())
    return Deed(names["kind"], names["target"], names["action"], by, reason, fields)


def _question(workspace: Workspace, deed: Deed) -> ActionPrompt:
    try:
        return question(workspace, deed)
    except UsageError as error:
        raise PageNotFoundError(str(error)) from error


def _do(workspace: Workspace, deed: Deed) -> tuple[str, DeedResult]:
    back = _question(workspace, deed).back
    return back, perform(workspace, deed)


def _log_in_first(request: Request, viewer: Viewer) -> Response:
    return refused(request, 403, "log in with your name before you act", viewer)
