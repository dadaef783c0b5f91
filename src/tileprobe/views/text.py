"""Numbers as people read them: durations with a unit, counts with separators, shares as bars."""

from __future__ import annotations

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def duration(ns: float | None) -> str:
    """Three digits and a unit: `1.23 ms`, `45.6 µs`, `789 ns`."""
    if ns is None:
        return ""
    if ns == 0:
        return "0"
    size, unit = next(((s, u) for s, u in _UNITS if abs(ns) >= 0.9995 * s), _UNITS[-1])
    value = ns / size
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def percent(share: float | None) -> str:
    if share is None:
        return ""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def bar(share: float, width: int, plain: bool = False) -> str:
    """A bar of at most `width` cells, exact to an eighth of one."""
    share = min(max(share, 0.0), 1.0)
    if plain:
        return "#" * round(share * width)
    eighths = round(share * width * 8)
    if share > 0:
        eighths = max(eighths, 1)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def grid(shape: tuple[int, ...]) -> str:
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return " x ".join(f"{extent:,}" for extent in shape)
