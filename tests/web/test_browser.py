"""A real browser walks all pages: nothing runs that should not, and all can be read and used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from page_paths import paths
from web_rig import KEY, RUN, TOKEN, log_more, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = Path(__file__).parent / "axe" / "axe-4.14.1.min.js"
WIDE, PHONE = 1280, 390
WITH_AXE = ("overview", "problem")
"""Pages that each test run checks by axe; the long tests check all."""
SOME_ROWS = {"exclude": [["tbody tr:nth-child(n+4)"], [".drawing svg > *"]]}
"""Rows of tables are alike, and figures have names as a whole."""
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}


@contextmanager
def opened(
    browser: Browser, *, width: int = WIDE, theme: str = "light", **options: Any
) -> Iterator[Page]:
    """A page in a context of its own; errors, dialogs and requests to others are failures."""
    scheme: Any = theme
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, **options
    )
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: (wrong.append("a dialog"), dialog.dismiss()))
    page.on(
        "console",
        lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None,
    )
    page.on(
        "request",
        lambda one: None if one.url.startswith("http://127.0.0.1:") else wrong.append(one.url),
    )
    yield page
    context.close()
    # The browser says so about every page that is not found.
    assert [text for text in wrong if "404 (Not Found)" not in text] == []


def check(page: Page, width: int, *, with_axe: bool = True) -> None:
    """Whether a page is as wide as the window, runs nothing, and is fit for screen readers."""
    assert page.title() != "owned"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if not with_axe:
        return
    if not page.evaluate("typeof axe !== 'undefined'"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("([what, rules]) => axe.run(what, rules)", [SOME_ROWS, RULES])
    assert [
        (one["id"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found["violations"]
    ] == []


def settled(page: Page) -> None:
    """Wait until curves are drawn."""
    # Not wait_for_function: its polling evaluates text, which the pages' policy forbids.
    page.wait_for_selector("[data-curve]:not(:has(canvas))", state="detached")


@pytest.mark.parametrize(("width", "theme"), [(WIDE, "light"), (PHONE, "dark")])
def test_all_pages_fit_the_window(
    browser: Browser, served: str, filled: Path, width: int, theme: str
) -> None:
    with opened(browser, width=width, theme=theme) as page:
        for path in paths(filled).values():
            page.goto(served + path)
            settled(page)
            check(page, width, with_axe=False)


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("name", WITH_AXE)
def test_a_page_is_fit_to_read(
    browser: Browser, served: str, filled: Path, name: str, width: int
) -> None:
    with opened(browser, width=width) as page:
        page.goto(served + paths(filled)[name])
        settled(page)
        check(page, width)


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_all_pages_are_fit_in_both_themes_and_on_phones(
    browser: Browser, served: str, filled: Path, width: int, theme: str
) -> None:
    with opened(browser, width=width, theme=theme) as page:
        for path in paths(filled).values():
            page.goto(served + path)
            settled(page)
            check(page, width)


def test_a_log_grows_without_loading_the_page_again(
    browser: Browser, served: str, filled: Path
) -> None:
    with opened(browser) as page:
        page.goto(f"{served}/jobs/402")
        page.evaluate("window.same = true")
        log_more(filled, 402, "first line\nsecond line <b>here</b>\n")
        page.get_by_text("second line <b>here</b>").wait_for()
        assert page.evaluate("window.same")
        assert page.locator("#live b").count() == 0


def test_no_news_are_asked_for_while_a_filter_is_written(browser: Browser, served: str) -> None:
    asks = """() => document.getElementById("live").dispatchEvent(
        new CustomEvent("htmx:beforeRequest", {bubbles: true, cancelable: true}))"""
    with opened(browser) as page:
        page.goto(f"{served}/jobs")
        assert page.evaluate(asks)
        page.get_by_label("state", exact=True).fill("error")
        assert not page.evaluate(asks)
        page.keyboard.press("Enter")
        page.wait_for_url("**state=error**")


def test_tables_are_sorted_by_the_keyboard(browser: Browser, served: str) -> None:
    with opened(browser) as page:
        page.goto(f"{served}/jobs")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        page.get_by_role("link", name="best", exact=True).focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**sort=best_ns**")
        assert page.locator("th[aria-sort=ascending]").count() == 1


def test_the_theme_is_remembered(browser: Browser, served: str) -> None:
    with opened(browser) as page:
        page.goto(f"{served}/machines")
        dark = "getComputedStyle(document.body).backgroundColor === 'rgb(15, 17, 20)'"
        assert not page.evaluate(dark)
        page.get_by_role("button", name="Theme").click()
        page.get_by_role("button", name="Theme").click()
        assert page.evaluate(dark)
        page.goto(f"{served}/jobs")
        assert page.evaluate(dark)


def test_a_curve_is_drawn_and_has_a_table(browser: Browser, served: str) -> None:
    with opened(browser) as page:
        page.goto(f"{served}/problems/{KEY}")
        settled(page)
        assert page.locator("#best-so-far canvas").count() == 1
        assert page.locator("#trials table tbody tr").count() > 1


def test_without_javascript_everything_is_there(browser: Browser, served: str) -> None:
    with opened(browser, java_script_enabled=False) as page:
        page.goto(f"{served}/training/{RUN}")
        assert page.locator("[data-curve] svg").count() > 1
        assert not page.get_by_role("button", name="Theme").is_visible()
        page.goto(f"{served}/jobs?state=evaluated")
        page.get_by_role("link", name="Next").click()
        assert "page=2" in page.url


@pytest.mark.parametrize("javascript", [True, False])
def test_somebody_logs_in_and_aborts_a_label(
    browser: Browser, acted_on: Path, javascript: bool
) -> None:
    with (
        running(acted_on, TOKEN) as address,
        opened(browser, java_script_enabled=javascript) as page,
    ):
        page.goto(f"{address}/labels/label_03")
        page.get_by_label("Your name").fill("Ann")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Log in").click()
        assert page.url == f"{address}/labels/label_03"
        page.get_by_role("link", name="Abort …").click()
        page.get_by_label("Reason").fill("too hot")
        if javascript:
            check(page, WIDE)
        page.get_by_role("button", name="Abort").click()
        assert page.locator("h1 .badge-aborted").count() == 1
        page.get_by_role("link", name="Resume …").click()
        page.get_by_role("button", name="Resume").click()
        assert page.locator("h1 .badge-aborted").count() == 0
        assert page.locator("#actions", has_text="Ann").count() == 1
        page.get_by_role("button", name="Log out").click()
        assert page.url.startswith(f"{address}/login")
