"""Reports to look at, as pages in out/gallery, and the pictures of them that README and docs show.

    python scripts/gallery.py [--pictures docs/images] [--only late-arrive]

A CPU attention kernel, a pipelined matmul on a simulated A100, a barrier on a simulated H100, and a token of
Cambricon-LLM. Pictures need Chromium and Playwright; without them only the pages are written, and it is said.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks._browser import FLAGS, chromium

import tileprobe
from tileprobe.trace import Trace
from tileprobe.views.html import write_html

OUT = ROOT / "out" / "gallery"
SIZE = {"width": 1440, "height": 900}


def attention() -> Trace:
    """Fused attention on this machine's CPU."""
    from examples.demo import LAUNCHES, arrays
    from examples.kernels import attention

    heads, length, dim = 8, 1024, 64
    q, k, v, out = arrays(*[(heads, length, dim)] * 4)
    (lse,) = arrays((heads, length))
    attention.forward(q, k, v, out, lse, False, (128, 64))  # compiles
    with tileprobe.profile() as session:
        for _ in range(LAUNCHES):
            attention.forward(q, k, v, out, lse, False, (128, 64))
    return session.trace


def cambricon() -> Trace:
    """One token of OPT-6.7B on a phone-sized Cambricon-LLM."""
    file = OUT / "cambricon.parquet"
    from tileprobe.cli import main

    code = main(
        ["llm", "--model", "opt-6.7b", "--device", "cambricon:s", "--trace", str(file), "--json", os.devnull]
    )
    if code:
        raise SystemExit(code)
    return Trace.load(file)


def simgpu() -> Trace:
    """A pipelined matrix product on a simulated A100: what each warp of the plain machine code does when."""
    import numpy as np
    from examples.kernels import matmul

    a, b, c = (tileprobe.array(np.ones((512, 512), np.float16)) for _ in range(3))
    with (
        tileprobe.use("sim:a100", timed=True, fast_sums=True),
        tileprobe.profile(programs="all") as session,
    ):
        for _ in range(4):
            matmul.matmul(a, b, c, tile=(128, 128, 32))
    return session.trace


def late_arrive() -> Trace:
    """A barrier that is released late on a simulated H100: consumer and producer take turns."""
    from examples.late_arrive import launch

    with (
        tileprobe.use("sim:h100", timed=True),
        tileprobe.profile(tools=("critical-path",), programs="all") as session,
    ):
        launch(early=False)
    return session.trace


PAGES: dict[str, Callable[[], Trace]] = {
    "attention": attention,
    "simgpu": simgpu,
    "cambricon": cambricon,
    "late-arrive": late_arrive,
}

# The line that is selected: where the producer waits (whose source is in another function); elsewhere the first product
LINES = {"late-arrive": r"50\s*\(in a function"}


def pictures(folder: Path, names: list[str]) -> None:
    """Each page in light and dark."""
    path = chromium()
    if path is None:
        print("no pictures: chromium is not installed (apt-get install chromium)", file=sys.stderr)
        return
    from PIL import Image
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        for name in names:
            for theme in ("light", "dark"):
                page = browser.new_page(viewport=SIZE, color_scheme=theme)  # type: ignore[arg-type]
                page.goto((OUT / f"{name}.html").as_uri())
                page.wait_for_selector("html[data-ready]", state="attached")
                _point_at(page, LINES.get(name, r"tl\.dot"))
                page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                picture.save(folder / f"page-{name}-{theme}.webp", lossless=True, method=6)
                page.close()
        browser.close()
    print(f"pictures: {folder}")


def _point_at(page, line: str) -> None:
    """The timeline at a program, and a line selected, so that what belongs to it is lit up everywhere."""
    if not page.locator("#code .row").count():
        return
    page.locator("#scroller").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "f"):  # the third program, in full width
        page.keyboard.press(key)
    page.locator("#code .row", has_text=re.compile(line)).first.click()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", metavar="FOLDER", type=Path)
    parser.add_argument("--only", metavar="NAME", choices=PAGES, help="only this page")
    args = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = {name: make for name, make in PAGES.items() if args.only in (None, name)}
    for name, make in chosen.items():
        write_html(make(), OUT / f"{name}.html")
        print(f"{name}: {(OUT / f'{name}.html').as_uri()}")
    if args.pictures:
        pictures(args.pictures, list(chosen))


if __name__ == "__main__":
    main()
