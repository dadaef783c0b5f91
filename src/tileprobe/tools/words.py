"""Numbers in the sentences of findings."""

from __future__ import annotations


def duration(ns: float) -> str:
    """For a sentence: 19.3 µs."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= scale:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns:.3g} ns"


def percent(share: float, error: float | None = None) -> str:
    """12.3 %, or 12.3 ±0.4 % where it is not exact."""
    text = f"{100 * share:.1f}"
    text = "0.0" if text == "-0.0" else text
    return f"{text} %" if not error else f"{text} ±{100 * error:.1f} %"


def size(count: float) -> str:
    """Bytes: 512 B, 1.5 KB, 12 MB; a KB has 1,024."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.4g} B"
