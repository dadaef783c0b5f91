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
    return f"{100 * share:.1f} %" if not error else f"{100 * share:.1f} ±{100 * error:.1f} %"
