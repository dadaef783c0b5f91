"""Whatever a report prints of a tool is in its JSON: every table printed again from the JSON alone is the same."""

import io
import json

import numpy as np
import polars as pl
import pytest
import triton
import triton.language as tl
from examples import late_arrive
from rich.console import Console

import tileprobe
from tileprobe.cli.advise import _show as show_advice
from tileprobe.cli.whatif import _show as show_whatif
from tileprobe.cli.whatif import as_data
from tileprobe.session.advising import Advice, Outcome
from tileprobe.session.delaying import Asked, Delayed
from tileprobe.session.scaling import Exposed, Scaled, Simulated
from tileprobe.tools.result import Column, Table
from tileprobe.tools.slopes import Gain, Slope
from tileprobe.tools.words import duration, percent
from tileprobe.views import tables
from tileprobe.views.json_report import trace_to_json
from tileprobe.views.screen import Screen
from tileprobe.views.terminal import print_report

TOOLS = ["overlap", "critical-path", "memory", "parallelism", "pipeline", "roofline"]


@triton.jit
def sums(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for _ in range(n):
        total += tl.exp(tl.load(x + i * 2, mask=i < 900, other=0.0)) * 0.5
    tl.store(y + i, total)


def on_cpu():
    x, y = (tileprobe.array(np.ones(2048, np.float32)) for _ in range(2))
    with tileprobe.use("cpu", threads=1), tileprobe.profile(tools=TOOLS, programs="all") as session:
        for _ in range(6):
            sums[(4,)](x, y, 5, BLOCK=256)
    return session


def on_h100():
    timed = tileprobe.use("sim:h100", timed=True, check=False, threads=1)
    with timed, tileprobe.profile(tools=TOOLS) as session:
        late_arrive.launch(False, 4)
    return session


def printed(trace, results, monkeypatch):
    """The tables that a report prints, with their cells."""
    seen, cells = [], tables._cells

    def noted(table, column, screen):
        found = cells(table, column, screen)
        seen.append((table, column, [cell.plain for cell in found]))
        return found

    monkeypatch.setattr(tables, "_cells", noted)
    out = io.StringIO()
    screen = Screen(out, width=400)
    print_report(trace, results, screen, full=True)
    monkeypatch.undo()
    return seen, screen


@pytest.mark.parametrize("run", [on_cpu, on_h100])
def test_every_table_and_sentence_of_a_report_is_in_the_json(run, monkeypatch):
    session = run()
    results = session.results()
    seen, screen = printed(session.trace, results, monkeypatch)
    told = json.loads(json.dumps(trace_to_json(session.trace, results), allow_nan=False))
    found = {(tool["tool"], table["title"]): table for tool in told["tools"] for table in tool["tables"]}
    mine = [(result.tool, table) for result in results if result.tool in TOOLS for table in result.tables]
    assert {tool for tool, _ in mine} >= {"overlap", "critical-path", "memory", "parallelism", "roofline"}
    again = 0
    for tool, table in mine:
        rows = found[tool, table.title]
        assert rows["kernel"] == table.kernel and len(rows["rows"]) == table.frame.height
        shown = [column for each, column, _ in seen if each is table]
        assert [c.name for c in shown] == [c["name"] for c in rows["columns"]]
        frame = pl.DataFrame(rows["rows"], schema=table.frame.schema)
        for column, told_column in zip(shown, rows["columns"]):
            plain = Column(
                told_column["name"],
                told_column["form"],
                told_column["title"],
                column.estimate,
                column.low,
                column.high,
            )
            cells = next(cells for each, one, cells in seen if each is table and one is column)
            assert [
                c.plain for c in tables._cells(Table(table.title, frame, [plain]), plain, screen)
            ] == cells
            again += len(cells)
    assert again > 100
    for result in results:
        for finding in result.findings:
            if result.tool in TOOLS:
                said = next(t for t in told["tools"] if t["tool"] == result.tool)["findings"]
                assert finding.text in [each["text"] for each in said]
                assert finding.data or finding.level == "warning", (
                    finding.text
                )  # numbers behind each sentence


def text_of(show, found):
    out = io.StringIO()
    show(Console(file=out, width=200, color_system=None), found)
    return out.getvalue()


def test_what_whatif_prints_is_in_its_json():
    sure, unsure = Slope(0.93, 0.05, 40), Slope(0.4, None, 3)
    rows = [
        Delayed("loop @ 3", "k.py", 3, 5e4, 0.5, 0.45, 0.51, sure, 2e3, Gain(0.47, 0.4, 0.51, True), 1.6, 44),
        Delayed("load @ 4", "k.py", 4, 1e4, 0.1, 0.1, 0.1, unsure, 2e3, Gain(0.0, 0.0, 0.1, False), 1.6, 44),
    ]
    asked = Asked("k", 1e5, 20.0, 1.6, 1.7, 1.0, 1.9, rows)
    (told,) = json.loads(json.dumps(as_data([asked])))
    text = text_of(show_whatif, [asked])
    for row in told["regions"]:
        assert row["name"] in text and duration(row["ns"] / row["cores"]) in text
        for name, form in (("slope", lambda v: f"{v:.2f}"), ("saved", lambda v: f"{100 * v:.1f}")):
            one = row[name]
            shown = [form(one["low"]), form(one["high"]), form(one["value"])]
            assert one["told"] == all(each in text for each in shown), (row["name"], name)
    assert f"{told['cores']:.1f} cores" in text and duration(told["took_ns"]) in text
    assert f"{told['cores_low']:.1f} to {told['cores_high']:.1f}" in text
    lost = sum(row["rounds"] - row["slope"]["rounds"] for row in told["regions"])
    assert f"{lost} of {sum(row['rounds'] for row in told['regions'])} rounds" in text


def test_what_whatif_prints_of_simulated_machines_is_in_its_json():
    lines = [Exposed("k.py:3", 900.0, 0.97, 0.21, 0.42), Exposed("k.py:4", 90.0, 0.0, -0.0001, 0.0)]
    asked = Simulated("k", 5e4, 3.0, [Scaled("DRAM latency", 4e4, 0.2)], lines, 0.22, 0.43)
    (told,) = json.loads(json.dumps(as_data([asked])))
    text = text_of(show_whatif, [asked])
    assert f"{told['times']:g} times faster" in text and "-0.0" not in text
    for row in told["scaled"]:
        assert all(each in text for each in (row["what"], duration(row["ns"]), percent(row["gain"])))
    for row in told["lines"]:
        cells = (
            row["line"],
            f"{row['slope']:.2f}",
            duration(row["ns"]),
            percent(row["faster"]),
            percent(row["gain"]),
        )
        assert any(all(cell in line for cell in cells) for line in text.splitlines())
    assert percent(told["together_faster"]) in text and percent(told["together"]) in text


def test_what_advise_prints_is_in_its_json():
    from dataclasses import asdict

    rows = [
        Outcome({"BLOCK": 512}, "a block of another size", "helps", 90.0, 0.1, 0.02, how="write 512"),
        Outcome({"BLOCK": 64}, "", "cannot run", why="no room"),
    ]
    edits = [
        {
            "tool": "memory",
            "cause": "stride",
            "evidence": "a stride of 17",
            "region": None,
            "line": None,
            "numbers": {},
        }
    ]
    advice = Advice("k", 1e5, rows, edits, [{"changes": {"BLOCK": 2}, "because": "", "fact": None}])
    told, text = json.loads(json.dumps(asdict(advice))), text_of(show_advice, [advice])
    first, second = told["outcomes"]
    assert all(
        w in text
        for w in ("BLOCK=512", first["verdict"], percent(first["gain"]), f"±{100 * first['error']:.1f}")
    )
    assert first["how"] in text and second["why"] in text and duration(told["took_ns"]) in text
    assert (
        f"no time was left for {len(told['untried'])} more" in text and told["edits"][0]["evidence"] in text
    )
