"""``skipjack web``: the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.arguments import examples

WEB_EXAMPLES = examples(
    "skipjack web",
    "skipjack web --port 8000 --token-file web.token",
    "skipjack web --host 0.0.0.0 --token-file web.token --tls-cert cert.pem --tls-key key.pem",
)
_PORT = 8717

FolderOption = list[Path] | None


def web(
    host: Annotated[
        str, typer.Option(help="The address to listen at; all but this machine's needs a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen at; 0: any that is free.")] = _PORT,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with a token, which readers log in with; or SKIPJACK_WEB_TOKEN."),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="A certificate, as PEM, to serve with TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key, as PEM.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="A host name that a reverse proxy is reached by; repeatable."),
    ] = None,
    sweeps: Annotated[
        FolderOption, typer.Option(help="A directory of reports of sweeps; repeatable.")
    ] = None,
    runs: Annotated[
        FolderOption, typer.Option(help="A directory of training runs (runs); repeatable.")
    ] = None,
    programs: Annotated[
        FolderOption,
        typer.Option(help="A directory of tune_result_*.json (this one); repeatable."),
    ] = None,
) -> None:
    """Show fleets, problems, banks and programs in a browser.

    Without a token it can only be read, and only from this machine.
    """
    from skipjack.app.views import WorkspacePlaces
    from skipjack.report import say, warn
    from skipjack.settings import load_settings
    from skipjack.web import WebOptions, check_options, read_token, serve

    options = WebOptions(host, port, read_token(token_file), tuple(name or ()), tls_cert, tls_key)
    check_options(options)
    if token_file is not None and token_file.stat().st_mode & 0o077:
        warn(f"other users of this machine can read {token_file}; chmod 600 {token_file} ends that")
    if not options.is_local and tls_cert is None:
        warn(
            "the token travels unencrypted; use --tls-cert and --tls-key, or a reverse proxy with "
            "TLS before 127.0.0.1"
        )
    default = WorkspacePlaces()
    places = WorkspacePlaces(
        sweeps=tuple(sweeps or default.sweeps),
        runs=tuple(runs or default.runs),
        programs=tuple(programs or default.programs),
    )
    serve(options, load_settings(), places, lambda url: say(f"{url} (Ctrl-C ends it)"))
