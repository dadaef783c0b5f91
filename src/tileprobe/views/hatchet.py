"""The region tree as Hatchet's literal format, as Proton writes it: `proton-viewer` and llnl-hatchet read it.

A node's `time (ns)` and `count` are its own, so that Hatchet's inclusive sums are the totals of our reports. Times are
scaled to all that ran.
"""

from __future__ import annotations

import json
import os
from typing import Any

from tileprobe.files import write_file
from tileprobe.tools.regions import region_times, region_tree
from tileprobe.tools.signatures import labels
from tileprobe.trace import Kernel, Trace
from tileprobe.views.encodable import encodable

TIME, COUNT = "time (ns)", "count"  # what proton-viewer calls time/ns, time/ms ... and count


class Hatchet:
    """The view called `hatchet`."""

    name = "hatchet"
    suffix = ".hatchet"

    def write(self, trace: Trace, path: str | os.PathLike[str]) -> None:
        write_file(path, json.dumps(literal(encodable(trace)), indent=1))


def literal(trace: Trace) -> list[dict[str, Any]]:
    """One root, under it the kernels with their trees."""
    times = region_times(trace)
    names = labels(trace.kernels)
    root = _node("ROOT", 0.0, 0)
    for kernel in trace.kernels:
        root["children"] += _trees(trace, kernel, times, names[kernel.id])
    return [root]


def _trees(trace: Trace, kernel: Kernel, times: Any, label: str) -> list[dict[str, Any]]:
    tops: list[dict[str, Any]] = []
    open_: list[dict[str, Any]] = []
    for row in region_tree(trace, kernel, times).iter_rows(named=True):
        own = row["self_ns"] if row["region"] is not None else 0.0
        node = _node(label if row["kind"] == "kernel" else row["name"], own, row["count"] or 0)
        node["frame"]["type"] = row["kind"]
        if row["source"]:
            node["frame"]["source"] = row["source"]
        if row["moved"]:
            node["frame"]["moved"] = row["moved"]
        del open_[row["depth"] :]
        (open_[-1]["children"] if open_ else tops).append(node)
        open_.append(node)
    return tops


def _node(name: str, ns: float, count: int) -> dict[str, Any]:
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": {TIME: ns, COUNT: count},
        "children": [],
    }
