"""Machine code on a screen: a summary, the source lines that took the most, and each instruction with its issues, what
its warps waited for and its control codes. In come the dictionaries that `inspect --sass --json` prints."""

from __future__ import annotations

import os
from typing import Any

from rich.text import Text

from tileprobe.views import text
from tileprobe.views.screen import Screen
from tileprobe.views.tables import heat

LINES = 10  # of the source that are summed up before the listing
HOT = 0.05  # of all warps' time: an instruction that is marked
WIDE, MIDDLE = 110, 76  # columns from which the listing has control codes, and shares
BAR = 8
REASON = 18  # as long as the longest


def print_kernel(kernel: dict[str, Any], screen: Screen) -> None:
    _summary(kernel, screen)
    _hot_lines(kernel, screen)
    _listing(kernel, screen)


def _summary(kernel: dict[str, Any], screen: Screen) -> None:
    cycles, counters = kernel["cycles"], kernel["counters"]
    launches = text.several(kernel["launches"], "launch", "launches")
    programs = text.several(_product(kernel["grid"]), "program")
    constants = ", ".join(f"{name}={value}" for name, value in kernel["constants"].items())
    called = f"{kernel['name']} ({constants})" if constants else kernel["name"]
    warps = text.several(kernel["warps"], "warp")
    screen.say(f"{called} on {kernel['target']}: {launches} of {programs} of {warps}", "bold")
    mean = sum(cycles) / len(cycles)
    between = f", {min(cycles):,} to {max(cycles):,}" if min(cycles) != max(cycles) else ""
    each, all_of_them = (" a launch", "all launches: ") if kernel["launches"] > 1 else ("", "")
    us = text.real(mean * 1e3 / kernel["clock_mhz"])
    rows = {
        "cycles": f"{mean:,.0f}{each}{between} ({us} at {kernel['clock_mhz']:,} MHz; simulated)",
        "issue slots": f"{text.percent(kernel['issued'] / max(kernel['issue_slots'], 1))} used, "
        f"{text.several(kernel['issued'], 'warp instruction')}",
        "occupancy": f"{kernel['occupancy_warps']} of {kernel['occupancy_most']} warps, limited by "
        f"{kernel['occupancy_limiter']} ({kernel['registers']} registers, {kernel['spill_bytes']:,} bytes spilled, "
        f"{kernel['shared_bytes']:,} bytes of shared memory)",
        "memory": f"{all_of_them}{counters.get('dram_bytes_read', 0):,} bytes of DRAM read, "
        f"{counters.get('dram_bytes_written', 0):,} written; sectors of 32 bytes: {_hits(counters, 'L1')}, "
        f"{_hits(counters, 'L2')}; {text.several(counters.get('bank_conflicts', 0), 'bank conflict')}",
        "waiting": _reasons(kernel["stalls"], 4, sum(kernel["stalls"].values())) or "for nothing",
    }
    for name, said in rows.items():
        _labelled(name, said, screen)


def _labelled(name: str, said: str, screen: Screen) -> None:
    """A name and a sentence, folded beside it."""
    indent = 14
    lines = screen.words(said).wrap(screen, max(screen.width - indent, 16))
    for n, line in enumerate(lines):
        line.rstrip()
        screen.print(Text(f"  {name if n == 0 else '':<{indent - 2}}", "dim").append_text(line), no_wrap=True)


def _hits(counters: dict[str, int], cache: str) -> str:
    hit, missed = (counters.get(f"{cache.lower()}_sectors_{how}", 0) for how in ("hit", "missed"))
    return f"{cache} {hit + missed:,} ({text.percent(hit / (hit + missed)) if hit + missed else '0 %'} hits)"


def _reasons(stalls: dict[str, int], most: int, total: int | None = None) -> str:
    """The largest reasons to wait, with their cycles or shares."""
    shown = list(stalls.items())[:most]
    if total is not None:
        return ", ".join(f"{name} {text.percent(lost / max(total, 1))}" for name, lost in shown)
    return ", ".join(f"{name} {lost:,}" for name, lost in shown)


def _hot_lines(kernel: dict[str, Any], screen: Screen) -> None:
    lines = [line for line in kernel["lines"][:LINES] if line["time_share"] >= 0.0005]
    if not lines:
        return
    screen.print()
    screen.say("Source lines by the time of warps, waiting included", "dim")
    places = [_place(line) for line in lines]
    width = max(map(len, places))
    hottest = lines[0]["time_share"]
    for line, place in zip(lines, places):
        share = line["time_share"]
        out = Text().append_text(screen.words(f"  {text.percent(share):>6} ", heat(share)))
        if screen.width >= MIDDLE:
            drawn = text.bar(share / hottest if hottest else 0.0, BAR, screen.plain)
            out.append(f"{drawn:<{BAR}} ", style=heat(share))
            out.append_text(screen.words(f"{next(iter(line['stalls']), ''):<{REASON}}  ", "dim"))
        out.append_text(screen.words(f"{place:<{width}}  ", "dim"))
        out.append_text(screen.words(line["text"] or "(no source)"))
        _put(out, screen)


def _listing(kernel: dict[str, Any], screen: Screen) -> None:
    screen.print()
    wide, middle = screen.width >= WIDE, screen.width >= MIDDLE
    reasons = 34 if wide else 24 if middle else 16
    title = f"  {'address':>7} {'issued':>9}" + (f" {'share':>6}" if middle else "") + f" {'time':>6}"
    title += (
        f"  {'waiting, cycles':<{reasons}}" + (f"  {'control codes':<19}" if wide else "") + "  instruction"
    )
    _put(screen.words(title, "dim"), screen)
    before, texts = None, {(line["file"], line["line"]): line["text"] for line in kernel["lines"]}
    for op in kernel["instructions"]:
        here = op["file"], op["line"]
        if here != before and op["line"]:
            source = texts.get(here, "")
            _put(screen.words(f"  {_place(op)}  {source}", "cyan"), screen)
        before = here
        _put(_row(op, screen, reasons, wide, middle), screen)
    if wide:
        screen.say(
            "control codes: B barriers waited for, R barrier set when operands are read, W when the result is written, "
            "Y yields, S cycles to the next instruction; share: of the instructions issued; time: of all warps, "
            "waiting included; > 5 % of it and more",
            "dim",
        )
    screen.print()


def _row(op: dict[str, Any], screen: Screen, reasons: int, wide: bool, middle: bool) -> Text:
    hot = op["time_share"] >= HOT
    style = heat(op["time_share"]) if hot else "dim" if not op["issued"] else ""
    out = Text().append_text(
        screen.words(f"{'>' if hot else ' '} {op['address']:>7x} {op['issued']:>9,}", style)
    )
    if middle:
        out.append_text(screen.words(f" {text.percent(op['issue_share']):>6}"))
    out.append_text(screen.words(f" {text.percent(op['time_share']):>6}", style))
    shown = _reasons(op["stalls"], 2)
    if len(shown) > reasons:
        shown = _reasons(op["stalls"], 1)
    out.append_text(screen.words(f"  {shown[:reasons]:<{reasons}}", "" if hot else "dim"))
    if wide:
        out.append_text(screen.words(f"  {control_text(op['control']):<19}", "dim"))
    return out.append_text(screen.words(f"  {op['text']}", style))


def control_text(control: dict[str, Any]) -> str:
    """`B01----:R-:W2:Y:S04`, as disassemblers of others write it."""
    waits = "".join(str(n) if n in control["wait_barriers"] else "-" for n in range(6))
    read, write = (
        "-" if control[name] is None else control[name] for name in ("read_barrier", "write_barrier")
    )
    return f"B{waits}:R{read}:W{write}:{'Y' if control['yield'] else '-'}:S{control['stall']:02}"


def _place(at: dict[str, Any]) -> str:
    return f"{os.path.basename(at['file'])}:{at['line']}" if at["line"] else "(no line)"


def _product(grid: list[int]) -> int:
    return grid[0] * grid[1] * grid[2]


def _put(line: Text, screen: Screen) -> None:
    """One line: cut on a terminal, whole in a file or a pipe."""
    line.rstrip()
    if screen.is_terminal:
        screen.print(screen.fit(line, screen.width), no_wrap=True)
    else:
        screen.file.write(line.plain + "\n")
