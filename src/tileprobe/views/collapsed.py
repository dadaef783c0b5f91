"""Collapsed stacks, one region a line with its own time in nanoseconds: what flame graph tools read.

`flamegraph.pl`, inferno and speedscope open it. Times are scaled to all that ran, as in every report.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tileprobe.files import write_file
from tileprobe.ir.regions import moved_out
from tileprobe.tools.regions import region_times, region_tree
from tileprobe.tools.signatures import labels
from tileprobe.trace import Trace
from tileprobe.views.encodable import encodable


class Collapsed:
    """The view called `collapsed`."""

    name = "collapsed"
    suffix = ".folded"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_file(path, collapsed(encodable(trace)))


def collapsed(trace: Trace) -> Iterator[str]:
    times = region_times(trace)
    names = labels(trace.kernels)
    for kernel in trace.kernels:
        stack: list[str] = []
        for row in region_tree(trace, kernel, times).iter_rows(named=True):
            name = names[kernel.id] if row["kind"] == "kernel" else row["name"]
            if row["moved"]:
                name = f"{name} ({moved_out(row['moved'])})"
            stack[row["depth"] :] = [_frame(name)]
            if row["region"] is not None and row["self_ns"] >= 0.5:
                yield f"{';'.join(stack)} {row['self_ns']:.0f}\n"


def _frame(name: str) -> str:
    """A name in which nothing separates frames or lines."""
    return "".join(c if c.isprintable() else "?" for c in name).replace(";", ",") or "?"
