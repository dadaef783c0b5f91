"""Tables on a screen: trees with bars, times with their uncertainty, as many columns as the width holds.

A tree of hundreds of regions is cut to the rows that matter: those with the largest own times, and what is around them.
"""

from __future__ import annotations

import polars as pl
from rich.table import Table as RichTable
from rich.text import Text

from tileprobe.tools.result import Column, Table
from tileprobe.views import text
from tileprobe.views.screen import Screen

BAR, SHORT = 12, 4  # cells of a bar; on a narrow screen
NARROW = 72
ROWS = 20  # of a tree that is cut: the largest own times, without those around them
SLACK = 8  # rows that a tree may have beyond that before it is cut
# Bounds as well: copies of one stage are off in the same direction, if they are.
_SUMMED = (
    *("total_ns", "self_ns", "low_ns", "high_ns", "recorded_ns", "taken_ns", "share"),
    *("count", "recorded_count", "interrupted"),
)
RIGHT = ("ns", "count", "percent", "number", "amount", "change", "noise", "within")


def print_table(table: Table, screen: Screen) -> None:
    """The columns that fit, from the left; those that do not are named."""
    cells = [_cells(table, column, screen) for column in table.columns]
    titles = [screen.words(column.title) for column in table.columns]
    widths = [max(title.cell_len, *(c.cell_len for c in col), 0) for title, col in zip(titles, cells)]
    keep = [n for n, column in enumerate(table.columns) if widths[n] or column.form == "tree"]
    longest = max(16, screen.width * 2 // 5)
    widths[0] = min(widths[0], longest)
    gone: list[int] = []
    while len(keep) > 2 and sum(widths[n] for n in keep) + 2 * (len(keep) - 1) > screen.width:
        gone.insert(0, keep.pop())
    if sum(widths[n] for n in keep) + 2 * (len(keep) - 1) > screen.width:
        widths[0] = max(8, screen.width - sum(widths[n] for n in keep[1:]) - 2 * (len(keep) - 1))
    out = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for n in keep:
        side = "right" if table.columns[n].form in RIGHT else "left"
        out.add_column(titles[n], justify=side, no_wrap=True, width=widths[n], overflow="crop")
    for row in zip(*cells):
        out.add_row(*(screen.fit(row[n], widths[n]) for n in keep))
    screen.print(out)
    left_out = ", ".join(table.columns[n].title for n in gone if table.columns[n].title)
    if left_out:
        screen.print(screen.words(f"too narrow for: {left_out}", "dim"))


def that_matter(frame: pl.DataFrame, rows: int = ROWS) -> pl.DataFrame:
    """The rows of a tree with the largest own times, each with all that is around it. Copies of a stage beside each
    other, as a loop leaves them that was unrolled, are one row."""
    if frame.height <= rows + SLACK:
        return frame
    frame = _copies_as_one(frame)
    if frame.height <= rows + SLACK:
        return frame
    own = frame["self_ns"].fill_null(0.0).to_list()
    depths = frame["depth"].to_list()
    chosen = set(sorted(range(frame.height), key=lambda n: -own[n])[:rows])
    kept: set[int] = set()
    path: list[int] = []  # the rows around the current one, and itself
    for n, depth in enumerate(depths):
        del path[depth:]
        path.append(n)
        if n in chosen:
            kept.update(path)
    return frame[sorted(kept)]


def _copies_as_one(frame: pl.DataFrame) -> pl.DataFrame:
    rows = frame.to_dicts()
    depths = [row["depth"] for row in rows]
    kept: list[dict] = []
    known: dict[tuple[int, str], dict] = {}  # by depth and name, below the row that is open
    for n, row in enumerate(rows):
        for key in [key for key in known if key[0] > row["depth"]]:
            del known[key]
        leaf = n + 1 == len(rows) or depths[n + 1] <= row["depth"]
        first = known.get((row["depth"], row["name"])) if leaf else None
        if first is None:
            kept.append({**row, "copies": 1})
            if leaf:
                known[row["depth"], row["name"]] = kept[-1]
            continue
        first["copies"] += 1
        for name in _SUMMED:
            first[name] = None if first[name] is None or row[name] is None else first[name] + row[name]
        first["estimate"] = first["estimate"] or row["estimate"]
        first["moved"] = max(first["moved"] or 0.0, row["moved"] or 0.0) or None
        first["recorded"] = first["recorded_ns"] / first["total_ns"] if first["total_ns"] else 1.0
        first["mean_ns"] = first["total_ns"] / first["count"] if first["count"] else None
        first["p50_ns"] = first["p95_ns"] = first["share_error"] = first["share_noise"] = None
    for row in kept:
        row["name"] = f"{row['copies']} x {row['name']}" if row["copies"] > 1 else row["name"]
    return pl.DataFrame(kept, schema={**frame.schema, "copies": pl.Int64})


def _cells(table: Table, column: Column, screen: Screen) -> list[Text]:
    frame = table.frame
    values = frame[column.name].to_list()
    if column.form == "tree":
        return tree_names(values, frame["depth"].to_list(), screen)
    if column.form == "share":
        return [_share(value, screen) for value in values]
    if column.form == "change":
        styles = [{"slower": "red", "faster": "green"}.get(v, "dim") for v in frame["verdict"]]
        return [screen.words(f"{100 * v:+.1f} %", style) for v, style in zip(values, styles)]
    if column.form == "letter":
        return [screen.words(letter, style) for letter, style in zip(values, frame["style"].to_list())]
    if column.form == "within":
        bounds = zip(values, frame[column.low].to_list(), frame[column.high].to_list())
        return [screen.words(text.within(*row), "dim") for row in bounds]
    shown = [_plain(column.form, value) for value in values]
    if column.estimate and column.estimate in frame.columns:
        marks = frame[column.estimate].to_list()
        shown = [
            f"~{value}" if mark and value not in ("", "0") else value for value, mark in zip(shown, marks)
        ]
    return [screen.words(value, "dim" if column.form == "noise" else "") for value in shown]


def _plain(form: str, value) -> str:
    if value is None:
        return ""
    if form == "ns":
        return text.duration(value)
    if form == "count":
        return text.count(value)
    if form == "percent":
        return text.percent(value)
    if form == "noise":
        return f"±{100 * value:.1f} %"
    if form == "number":
        return f"{value:.3g}"
    return str(value)


def _share(share: float | None, screen: Screen) -> Text:
    if share is None:
        return Text("")
    cells = BAR if screen.width >= NARROW else SHORT
    cell = Text(f"{text.percent(share):>6} ")
    cell.append(f"{text.bar(share, cells, screen.plain):<{cells}}", style=heat(share))
    return cell


def heat(share: float) -> str:
    return "red" if share >= 0.3 else "yellow" if share >= 0.1 else "green"


def tree_names(names: list[str], depths: list[int], screen: Screen) -> list[Text]:
    """Names with the branches of their tree before them."""
    cells = []
    for n, (name, depth) in enumerate(zip(names, depths)):
        rails = ""
        for level in range(1, depth):
            rails += "│ " if _continues(depths, n, level) else "  "
        branch = "" if depth == 0 else "├╴" if _continues(depths, n, depth) else "└╴"
        cell = screen.words(rails + branch, "dim")
        cell.append_text(screen.words(name, "not dim"))
        cells.append(cell)
    return cells


def _continues(depths: list[int], n: int, level: int) -> bool:
    """Whether a later row hangs at `level` from the same branch."""
    for depth in depths[n + 1 :]:
        if depth < level:
            return False
        if depth == level:
            return True
    return False
