"""Exports of a trace of a million intervals: seconds, peak memory and size; and the page in a browser.

The page is opened with 300,000 intervals: until it is ready, and the slowest redraw of forty zooms. Floors: any export
within 10 s, the page at most 20 MB, open within 5 s, a redraw within 50 ms.

Usage: python -m benchmarks.views [--intervals 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks._browser import FLAGS, chromium
from benchmarks._large_trace import large_trace
from tileprobe.files import write_json
from tileprobe.views.html import write_html
from tileprobe.views.load import BUILT_IN

SECONDS, MEGABYTES, OPEN_SECONDS, REDRAW_MS = 10.0, 20.0, 5.0, 50.0
ONE = """import resource, sys, time
from tileprobe.trace import Trace
from tileprobe.views.load import load_view
trace = Trace.open(sys.argv[1])
view = load_view(sys.argv[2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
view.write(trace, sys.argv[3])
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def exports(intervals: int, folder: Path) -> dict[str, dict[str, float]]:
    """Each in a process of its own, so that its memory is its own."""
    file = folder / "trace.parquet"
    large_trace(intervals).save(file)
    found = {}
    for name in BUILT_IN:
        out = folder / f"out.{name}"
        run = subprocess.run(
            [sys.executable, "-c", ONE, file, name, out], capture_output=True, text=True, check=True
        )
        seconds, memory = map(float, run.stdout.split())
        size = out.stat().st_size / 1e6
        found[name] = {"seconds": round(seconds, 2), "peak_mb": round(memory), "file_mb": round(size, 2)}
        print(f"{name:12} {seconds:6.2f} s  {memory:6.0f} MB in memory  {size:7.2f} MB on disk", flush=True)
    return found


def page(intervals: int, folder: Path) -> dict[str, float] | None:
    """Opening and zooming, as the browser measures them."""
    path = chromium()
    if path is None:
        print("chromium is not installed: the page is not measured")
        return None
    from playwright.sync_api import sync_playwright

    file = folder / "page.html"
    write_html(large_trace(intervals), file)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        start = time.perf_counter()
        tab.goto(file.as_uri())
        tab.wait_for_selector("html[data-ready]", state="attached")
        opened = time.perf_counter() - start
        times = []
        for step in range(40):
            tab.keyboard.press("w" if step % 20 < 10 else "s")
            tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            times.append(float(tab.evaluate("document.documentElement.dataset.drawn")))
        browser.close()
    result = {
        "open_s": round(opened, 2),
        "redraw_ms": round(sorted(times)[len(times) // 2], 1),
        "slowest_redraw_ms": max(times),
    }
    print(f"page of {intervals:,} intervals: {result}")
    return result


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=1_000_000)
    parser.add_argument("--json", default="benchmarks/results/views.json")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        written = exports(args.intervals, Path(folder))
        opened = page(min(args.intervals, 300_000), Path(folder))
    result: dict[str, Any] = {"intervals": args.intervals, "exports": written, "page": opened}
    write_json(args.json, result, make_folder=True)
    slow = [name for name, one in written.items() if one["seconds"] > SECONDS]
    slow += ["html: too large"] if written["html"]["file_mb"] > MEGABYTES else []
    if opened is not None and (opened["open_s"] > OPEN_SECONDS or opened["slowest_redraw_ms"] > REDRAW_MS):
        slow.append("page")
    if slow:
        print(f"above a floor: {json.dumps(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
