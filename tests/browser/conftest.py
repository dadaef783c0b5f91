"""A real browser for the page: Debian's Chromium without a window. Where it is missing, tests skip and say so; with
TILEPROBE_NO_SKIP in the environment, as in CI, they fail."""

import os
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent / "trace"), str(HERE)]

HOW = "chromium is not installed: apt-get install chromium (Debian), or set TILEPROBE_CHROMIUM to its path"


@pytest.fixture(scope="session")
def browser():
    from benchmarks._browser import FLAGS, chromium

    path = chromium()
    if path is None:
        (pytest.fail if os.environ.get("TILEPROBE_NO_SKIP") else pytest.skip)(HOW)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """A function that shows a trace, or a file; the test fails on errors of the page and on anything it would fetch."""
    from tileprobe.views.html import write_html

    wrong, contexts = [], []

    def show(trace=None, *, file=None, width=1440, height=900, theme="light", **options):
        if file is None:
            file = tmp_path / "report.html"
            write_html(trace, file, **options)
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on(
            "console", lambda said: wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda sent: None if sent.url.startswith(("file:", "blob:", "data:")) else wrong.append(sent.url),
        )
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield show
    for context in contexts:
        context.close()
    assert not wrong


@pytest.fixture(scope="session")
def consumers(browser):
    """Perfetto's trace processor and the importer of chrome://tracing."""
    from consumers import Consumers

    opened = Consumers(browser)
    yield opened
    opened.close()
