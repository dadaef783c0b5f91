"""What has changed since a baseline was made, as a table for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tileprobe.testing.baselines import Change


def told(
    name: str, kept: Mapping[str, Any], now: Mapping[str, Any], changed: Sequence[Change], path: str
) -> str:
    lines = [f"{now['kernel']} on {now['machine']}: not what {path} says of {name!r}"]
    if kept.get("machine") != now["machine"]:
        lines.append(f"  the baseline was made on {kept.get('machine')}, this ran on {now['machine']}")
    if changed:
        rows = [("", "was", "is", "change"), *map(_row, changed)]
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines += [f"  {row[0]:<{widths[0]}}{_right(row, widths)}".rstrip() for row in rows]
    if kept.get("model") != now["model"]:
        lines.append(
            f"The model of {now['machine']} is another than the baseline's ({kept.get('model')}, now {now['model']}):"
            " figures may differ with no change in the kernel."
        )
    if kept.get("triton") != now["triton"]:
        lines.append(f"The baseline was made with Triton {kept.get('triton')}, this is {now['triton']}.")
    lines.append("If this is meant, write it anew and commit it: pytest --tileprobe-update")
    return "\n".join(lines)


def _right(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:]))


def _row(change: Change) -> tuple[str, str, str, str]:
    share = "" if change.share is None else f"{change.share:+.1%}"
    return change.figure, _number(change.was), _number(change.now), share


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"
