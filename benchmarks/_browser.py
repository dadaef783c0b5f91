"""Debian's Chromium, for whoever opens the page: benchmarks, pictures, tests."""

from __future__ import annotations

import os
import shutil

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


def chromium() -> str | None:
    """Where it is; the environment may say."""
    return (
        os.environ.get("TILEPROBE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )
