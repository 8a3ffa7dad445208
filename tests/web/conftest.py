"""A filled directory, applications that show it, a server, and a browser."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from starlette.testclient import TestClient
from web_rig import TOKEN, fill, running, workspace_in

from needs import lacking
from skipjack.web import WebOptions, create_app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-first-run"),
)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that tests only read."""
    place = tmp_path_factory.mktemp("web") / "user"
    fill(place)
    return place


@pytest.fixture(scope="session")
def acted_on(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of it that tests change."""
    place = tmp_path_factory.mktemp("acts") / "user"
    shutil.copytree(filled, place)
    return place


@pytest.fixture(scope="session")
def client(filled: Path) -> Iterator[TestClient]:
    """A reader of a server without a token."""
    app = create_app(WebOptions(), lambda: workspace_in(filled))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def guarded(acted_on: Path) -> Iterator[TestClient]:
    """A stranger at a server with a token."""
    app = create_app(WebOptions(token=TOKEN), lambda: workspace_in(acted_on))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.follow_redirects = False
        yield client


@pytest.fixture(scope="session")
def served(filled: Path) -> Iterator[str]:
    """The address of a server for browsers."""
    with running(filled) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, as Debian packages it."""
    program = shutil.which("chromium")
    if program is None:
        lacking("Chromium", "chromium is not installed")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        lacking("Chromium", "the Python package playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()
