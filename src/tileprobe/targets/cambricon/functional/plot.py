"""A line plot with error bars as a small SVG file; nothing but the standard library is needed.

In: curves of (x, y, low, high) and axis titles. Out: a string of SVG. Axes are logarithmic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

COLOURS = ("#d62728", "#1f77b4", "#17a2b8", "#9467bd", "#2ca02c", "#8c564b", "#e377c2")
WIDTH, HEIGHT = 560, 360
PAPER = '<rect width="100%" height="100%" fill="white"/>'
LEFT, RIGHT, TOP, BOTTOM = 70, 130, 34, 52


Point = tuple[float, float, float, float]  # x, y, low, high


@dataclass
class Curve:
    name: str
    points: list[Point]


@dataclass
class Panel:
    title: str
    x_title: str
    y_title: str
    curves: list[Curve] = field(default_factory=list)
    y_range: tuple[float, float] | None = None

    def svg(self, left: int = 0) -> str:
        xs = [x for c in self.curves for x, *_ in c.points]
        ys = [y for c in self.curves for _, *rest in c.points for y in rest if y > 0]
        if not xs or not ys:
            return ""
        x_axis = _Axis(min(xs), max(xs), LEFT, WIDTH - RIGHT)
        low, high = self.y_range or (min(ys), max(ys))
        y_axis = _Axis(low, high * 1.0001, HEIGHT - BOTTOM, TOP)
        parts = [f'<g transform="translate({left},0)" font-family="sans-serif" font-size="11">']
        parts.append(_text(LEFT, 20, self.title, size=13))
        parts += _frame(x_axis, y_axis, self.x_title, self.y_title)
        for index, curve in enumerate(self.curves):
            parts += _curve(curve, COLOURS[index % len(COLOURS)], x_axis, y_axis)
            parts += _legend(curve.name, COLOURS[index % len(COLOURS)], TOP + 16 * index)
        return "\n".join([*parts, "</g>"])


@dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        span = math.log(self.high / self.low) or 1.0
        return self.start + (self.end - self.start) * math.log(value / self.low) / span

    def ticks(self) -> list[float]:
        if self.high / self.low < 4:  # too few round decades: even steps
            step = 10.0 ** math.floor(math.log10(self.high - self.low or 1.0))
            step = step / 2 if (self.high - self.low) / step < 3 else step
            first = math.ceil(self.low / step)
            return [k * step for k in range(first, math.floor(self.high / step) + 1)]
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        steps = (1,) if self.high / self.low > 300 else (1, 2, 5)
        return [
            s * 10.0**d
            for d in decades
            for s in steps
            if self.low <= s * 10.0**d * 1.001 and s * 10.0**d <= self.high
        ]


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 11, turn: bool = False) -> str:
    rotate = f' transform="rotate(-90 {x:.0f} {y:.0f})"' if turn else ""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{rotate}'
    return f"<text {place}>{escape(text)}</text>"


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _frame(x_axis: _Axis, y_axis: _Axis, x_title: str, y_title: str) -> list[str]:
    parts = []
    for tick in x_axis.ticks():
        x = x_axis.at(tick)
        parts.append(_line(x, TOP, x, HEIGHT - BOTTOM, "#e4e4e4"))
        parts.append(_text(x, HEIGHT - BOTTOM + 15, f"{tick:.0e}".replace("e-0", "e-"), "middle"))
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        parts.append(_line(LEFT, y, WIDTH - RIGHT, y, "#e4e4e4"))
        parts.append(_text(LEFT - 6, y + 4, f"{tick:g}", "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 14, x_title, "middle", 12))
    parts.append(_text(18, (TOP + HEIGHT - BOTTOM) / 2, y_title, "middle", 12, turn=True))
    return parts


def _curve(curve: Curve, colour: str, x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts, path = [], []
    for x, y, low, high in curve.points:
        px, py = x_axis.at(x), y_axis.at(y)
        path.append(f"{px:.1f} {py:.1f}")
        parts.append(_line(px, y_axis.at(low), px, y_axis.at(high), colour))
        parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.6" fill="{colour}"/>')
    return [f'<path d="M{"L".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8"/>', *parts]


def _legend(name: str, colour: str, y: float) -> list[str]:
    x = WIDTH - RIGHT + 10
    return [_line(x, y + 6, x + 18, y + 6, colour, 2.0), _text(x + 23, y + 10, name)]


def page(panels: list[Panel]) -> str:
    """The panels side by side."""
    width = WIDTH * len(panels)
    body = "\n".join(panel.svg(WIDTH * k) for k, panel in enumerate(panels))
    size = f'width="{width}" height="{HEIGHT}" viewBox="0 0 {width} {HEIGHT}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n{PAPER}\n{body}\n</svg>\n'


def ber_panel(table: list[dict], title: str, highest: float = 1000.0) -> Panel:
    """Perplexity against bit error rate; what lies above `highest` (hopeless anyway) is drawn at the edge."""
    panel = Panel(title, "bit error rate", "perplexity")
    for code in dict.fromkeys(row["ecc"] for row in table if row["rate"] > 0):
        rows = [row for row in table if row["ecc"] == code and row["rate"] > 0]
        keys = ("perplexity", "perplexity_low", "perplexity_high")
        points: list[Point] = []
        for row in rows:
            middle, low, high = (min(row[key], highest) for key in keys)
            points.append((row["rate"], middle, low, high))
        panel.curves.append(Curve(f"{code} ({rows[0]['spare_bytes_used']} B)", points))
    return panel
