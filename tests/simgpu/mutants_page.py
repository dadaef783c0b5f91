"""What became of the changes in handlers and families: figures in a sentence each, and a page of those that survive."""

from __future__ import annotations

from collections import Counter
from typing import Any

from mutants_judged import GAP, NONE, lane_verdict, verdict


def _judged(kind: str, name: str, alive: list[str]) -> list[tuple[str, str, str]]:
    """(the change, what it is taken for, why)."""
    if kind == "families":
        return [(what, *verdict(what)) for what in alive]
    return [(f"{name}: {what.removesuffix(' (?)')}", *lane_verdict(name, what)) for what in alive]


def _counts(found: dict[str, Any], kind: str) -> tuple[int, int, int]:
    """Changes tried, those that survive, those of them that are none."""
    entries = found.get(kind, {})
    tried = sum(entry["tried"] for entry in entries.values())
    judged = [one for name, entry in entries.items() for one in _judged(kind, name, entry["alive"])]
    return tried, len(judged), sum(what == NONE for _, what, _ in judged)


def summary(found: dict[str, Any]) -> str:
    said = []
    for kind, called in (("handlers", "handlers over lanes"), ("families", "families")):
        tried, alive, none = _counts(found, kind)
        if tried:
            share, real = (tried - alive) / tried, (tried - alive) / max(tried - none, 1)
            said.append(
                f"{called}: {tried - alive:,} of {tried:,} changes are noticed ({share:.1%}); {none} change nothing "
                f"that can be seen, {alive - none} are gaps: {real:.1%} of those that change something"
            )
    return "\n".join(said)


def page(found: dict[str, Any]) -> str:
    lines = [
        "# Changes of the simulated GPU that tests do not notice",
        "",
        "Made by `python tests/simgpu/mutation.py --page docs/simgpu_mutants.md`. A change exchanges an operation for",
        "its neighbour, exchanges operands, moves a constant by one or turns a condition. One that is called *no",
        "change* was judged by reading, or (handlers over lanes) by 600 further inputs none of which shows it; the",
        "others are gaps. Families: every instruction alone on some 2,000 cases, whose memory is compared byte for",
        "byte with a reference. A change that crashes is noticed. What changes drawn anew say stands in",
        "[simgpu.md](simgpu.md#instructions).",
        "",
        *(f"- {line}" for line in summary(found).splitlines()),
    ]
    for kind, title in (("families", "Families"), ("handlers", "Handlers over lanes")):
        entries = found.get(kind, {})
        lines += ["", f"## {title}", "", "| | noticed | no change | gaps |", "| --- | --- | --- | --- |"]
        for name, entry in sorted(entries.items()):
            judged = _judged(kind, name, entry["alive"])
            none = sum(what == NONE for _, what, _ in judged)
            noticed = entry["tried"] - len(judged)
            if kind == "families" or judged:
                lines.append(f"| {name} | {noticed} of {entry['tried']} | {none} | {len(judged) - none} |")
        lines += ["", "| change | judgement |", "| --- | --- |"]
        rows = Counter(
            one for name, entry in sorted(entries.items()) for one in _judged(kind, name, entry["alive"])
        )
        for (what, judgement, why), times in sorted(rows.items(), key=lambda row: (row[0][1] != GAP, row[0])):
            many = f" ({times} places)" if times > 1 else ""
            lines.append(
                f"| {what.replace('|', chr(92) + '|')}{many} | {judgement}{': ' + why if why else ''} |"
            )
    return "\n".join(lines) + "\n"
