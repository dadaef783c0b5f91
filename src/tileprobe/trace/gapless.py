"""What is hidden between a loop's iterations, and between its start and the first one, belongs to iterations.

Between these records stands no work of another region. On a GPU it is what the compiler has moved out of the loop, and
what finds out where records go and whether an iteration is kept: where a warp waits for its loads anyway it takes no
longer by it, but its next record does come later. In come the columns of decoded intervals; starts of first iterations
and ends of iterations whose next one was recorded, too, are changed in place.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tileprobe.ir.regions import Region

Columns = dict[str, np.ndarray]


def without_gaps(columns: Columns, regions: Sequence[Region], hidden: float = 1.0) -> None:
    """`hidden`: the share of what records cost, and of what stands around them, that loops do not take longer by."""
    loops = {region.id for region in regions if region.kind == "loop"}
    of = {
        region.id: region.parent
        for region in regions
        if region.kind == "iteration" and region.parent in loops
    }
    if not of or not len(columns.get("region", ())):
        return
    region = columns["region"].astype(np.int64)
    parent = np.full(max(int(region.max()), *of, *loops) + 1, -1)
    parent[list(of)], parent[list(loops)] = list(of.values()), list(loops)
    at = np.flatnonzero((parent[region] >= 0) & (columns["kind"] == 0))
    inner = ~np.isin(region[at], list(loops))
    keys = [columns[name].astype(np.int64)[at] for name in ("launch", "program", "stream")] + [
        parent[region[at]]
    ]
    order = np.lexsort((inner, columns["start"][at], *keys[::-1]))
    at, inner = at[order], inner[order]
    same = np.all([key[order][1:] == key[order][:-1] for key in keys], axis=0)
    number = columns["iteration"].astype(np.int64)[at]
    first = np.flatnonzero(same & inner[1:] & ~inner[:-1] & (number[1:] == 0)) + 1
    before = np.flatnonzero(same & inner[1:] & inner[:-1] & (number[1:] == number[:-1] + 1))
    for suffix in ("", "_corrected"):
        start, stop = columns.get(f"start{suffix}"), columns.get(f"stop{suffix}")
        if start is None or stop is None:
            continue
        gap = hidden * (start[at[first]].astype(np.float64) - start[at[first - 1]])
        start[at[first]] -= gap.astype(start.dtype)
        gap = hidden * (start[at[before + 1]].astype(np.float64) - stop[at[before]])
        stop[at[before]] += gap.astype(stop.dtype)
