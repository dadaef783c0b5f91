"""Words and numbers as people read them: durations with a unit, counts with separators, shares as bars.

Also what may not reach a terminal: names come from files of others, and a terminal obeys control characters.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tileprobe.trace import Losses, Trace

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_COUNTED = ((1e9, "G instr"), (1e6, "M instr"), (1e3, "k instr"), (1.0, "instr"))  # where there is no time
_units: ContextVar[tuple[tuple[float, str], ...]] = ContextVar("units", default=_TIME)
NO_TIME = (
    "no time is simulated: figures are warp instructions executed (a launch: of all its warps, a region: of the warp "
    "that records)"
)
# What a terminal without Unicode shows for the characters that views use.
_PLAIN = str.maketrans(
    {
        "µ": "u",
        "±": "+-",
        "·": "-",
        "•": "*",
        "│": "|",
        "├": "|",
        "└": "`",
        "╴": "-",
        "…": "...",
        "█": "#",
        "×": "x",
    }
)


def printable(text: str) -> str:
    """The text on one line, with control characters, marks that turn the direction of writing and halves of characters
    as escapes: `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c in "\t\u00a0" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def ascii_only(text: str) -> str:
    """The text for a terminal that knows nothing else."""
    return (
        text if text.isascii() else text.translate(_PLAIN).encode("ascii", "backslashreplace").decode("ascii")
    )


def part(losses: Losses) -> float:
    """The share of what a launch would have recorded that it did record; all of it where nobody counted."""
    whole = losses.kept + losses.sampled_out + losses.lost
    return losses.kept / whole if whole else 1.0


def counts(trace: Trace) -> bool:
    """Whether what a trace calls nanoseconds are instructions, of all its kernels."""
    return bool(trace.kernels) and not any(kernel.clock.is_time for kernel in trace.kernels)


def counted() -> str:
    """What a figure is a part of, in the units that are in use."""
    return "time" if _units.get() is _TIME else "instructions"


@contextmanager
def units_of(trace: Trace) -> Iterator[None]:
    """Durations are written in what the trace's clocks count."""
    before = _units.set(_COUNTED if counts(trace) else _TIME)
    try:
        yield
    finally:
        _units.reset(before)


def wider() -> int:
    """How many more characters a duration has than one of time."""
    return len(_units.get()[1][1]) - len(_TIME[1][1])


def real(ns: float) -> str:
    """A duration of this machine's own, whatever the trace counts."""
    return duration(ns, _TIME)


def duration(ns: float | None, units: tuple[tuple[float, str], ...] | None = None) -> str:
    """Three digits and a unit: `1.23 ms`, `45.6 µs`, `789 ns`."""
    if ns is None:
        return ""
    if abs(ns) < 0.005:
        return "0"
    units = units or _units.get()
    size, unit = next(((s, u) for s, u in units if abs(ns) >= 0.9995 * s), units[-1])
    value = ns / size
    digits = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def count(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}"


def several(number: int, what: str, plural: str = "") -> str:
    """`1 launch`, `2,000 launches`."""
    return f"{number:,} {what if number == 1 else plural or what + 's'}"


def percent(share: float | None) -> str:
    if share is None:
        return ""
    value = 100 * share
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def within(value: float | None, low: float | None, high: float | None) -> str:
    """How far off a value may be, as a share of it: `±3.1 %`; nothing where that is not known, or it is exact."""
    if value is None or low is None or high is None or value <= 0 or low == value == high:
        return ""
    return f"±{percent(max(high - value, value - low) / value)}"


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
