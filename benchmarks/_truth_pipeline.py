"""Cases of `truth.py` for `pipeline`: loops that keep to the models by construction, and a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._truth import Case, Pair, named
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit

REGIONS = [
    Region(0, "k", "kernel"),
    Region(1, "loop @ 3", "loop", 0),
    Region(2, "iteration", "iteration", 1),
    Region(3, "async copy @ 4", "async", 0),
    Region(4, "dot @ 5", "dot", 2),
]


def _loop(rounds: int, depth: int, load: int, compute: int) -> Trace:
    """Each load is issued when its buffer is free, `depth` rounds before it is needed."""
    rows: list[tuple[int, str, int, int, int]] = []
    issued, now, begun = [0] * depth, 0, 0
    for j in range(rounds):
        there = max(now, issued[j] + load)
        rows += [(3, "async", j, issued[j], there), (3, "wait", j, now, there)]
        begun = there if j == 0 else begun
        start, now = (there if j == 0 else now), there + compute
        rows += [(4, "region", j, there, now), (2, "region", j, start, now)]
        issued.append(now)
    rows += [(1, "region", -1, begun, now), (0, "region", -1, 0, now)]
    names = ("region", "kind", "iteration", "start", "stop")
    return Trace.build(
        {name: list(column) for name, column in zip(names, zip(*rows))},
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9, "simulated"))],
        launches=[Launch(0, 0, (1,), 0.0, float(now), losses=Losses(1))],
        regions=REGIONS,
        units=[Unit(0, "SM 0", "sm")],
    )


def _read(trace: Trace) -> dict[str, Any]:
    from tileprobe.tools.pipeline import Pipeline

    return Pipeline().read(trace).tables[0].frame.to_dicts()[0]


def _by_hand(depth: int, load: int, compute: int) -> Callable[[], list[Pair]]:
    def run() -> list[Pair]:
        row = _read(_loop(400, depth, load, compute))
        path = (load + compute) / depth
        bound = "loads" if path > compute else "computing"
        return [
            named(f"bound by {bound}", row["bound"] == bound),
            Pair("load to compute", path / compute, row["margin"], ""),
            Pair("a round predicted", max(path, compute), row["predicted_ns"]),
            Pair("a round measured", max(path, compute), row["measured_ns"]),
        ]

    return run


def _simulated() -> list[Pair]:
    """With three stages the loop is bound by its loads if and only if a fourth makes it quicker; what hiding them would
    bring is what that brings, within what the copies of more stages cost."""
    import tileprobe
    from benchmarks._gpu_kernels import matmul

    def run(stages: int) -> dict[str, Any]:
        a, b, c = (tileprobe.array(np.ones(s, np.float16)) for s in ((128, 1024), (1024, 128), (128, 128)))
        options = {"BM": 64, "BN": 64, "BK": 32, "num_stages": stages, "num_warps": 4}
        profiled = tileprobe.profile(tools=["pipeline"], programs="all", min_cost=0)
        with tileprobe.use("sim:a100", timed=True, probes="free", check=False), profiled as session:
            matmul[(2, 2)](a, b, c, 128, 128, 1024, **options)
        return _read(session.trace)

    three, four = run(3), run(4)
    return [
        named("bound by loads", three["bound"] == "loads"),
        named("and not with a fourth stage", four["bound"] == "computing"),
        Pair("a round of three stages, predicted", three["measured_ns"], three["predicted_ns"]),
        Pair("a round of four, predicted", four["measured_ns"], four["predicted_ns"]),
    ]


def _specialised() -> list[Pair]:
    """With four buffers consumers wait for loads, and a round takes what the model says, once the pipeline is full."""
    import tileprobe
    from benchmarks._gpu_kernels import tensor_matmul

    a, b, c = (tileprobe.array(np.ones(s, np.float16)) for s in ((128, 1024), (128, 1024), (128, 128)))
    options = {"BM": 64, "BN": 128, "BK": 64, "SPECIALIZE": True, "num_stages": 4, "num_warps": 4}
    profiled = tileprobe.profile(tools=["pipeline"], programs="all", min_cost=0)
    with tileprobe.use("sim:h100", timed=True, probes="free", check=False), profiled as session:
        tensor_matmul[(2, 1)](a, b, c, 128, 128, 1024, **options)
    (table,) = session.results()[0].tables
    return [
        Pair(f"{row['name'].partition(':')[0]}: a round, predicted", row["measured_ns"], row["predicted_ns"])
        for row in table.frame.sort("name").to_dicts()
    ]


CASES = (
    Case("a loop that waits for its loads", "pipeline", "by hand", _by_hand(2, 900, 200)),
    Case("a loop whose loads are there", "pipeline", "by hand", _by_hand(3, 500, 400)),
    Case("a product with 3 and 4 stages", "pipeline", "sim:a100", _simulated),
    Case("specialised warps, 4 stages", "pipeline", "sim:h100", _specialised),
)
