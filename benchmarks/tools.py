"""Every tool on traces of a million intervals: seconds of processor time, in the process that reads the trace.

Three traces: an attention kernel on eight cores, the units of Cambricon-LLM, and warps of a GPU that wait for each
other (with an edge for each wait). Floor: any tool within 10 s of processor time, which a busy machine does not change.

Usage: python -m benchmarks.tools [--intervals 1000000] [--tool NAME]
"""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

import tileprobe
from benchmarks._common import save
from benchmarks._large_trace import large_trace
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import load_model
from tileprobe.targets.cambricon.simulate import simulate
from tileprobe.tools.load import BUILT_IN, load_tool
from tileprobe.trace import Clock, Kernel, Launch, Region, Trace, Unit

SECONDS = 10.0
WARPS, SMS = 4, 108


def units(intervals: int) -> Trace:
    """A step of a model with about as many page commands."""
    with tileprobe.profile(tools=["regions"], intervals=intervals) as session:
        simulate(load_model("llama2-7b"), load_machine("cambricon:s"), Options())
    return session.trace


def warps(intervals: int) -> Trace:
    """Two warps of each program produce, two consume: each step of the ones waits for the step before of the others."""
    steps = 50
    programs = max(1, intervals // (WARPS * (2 * steps + 1)))
    rng = np.random.default_rng(0)
    lasts = rng.gamma(4.0, 50.0, (programs, steps, 2)).round() + 10  # of producing, of consuming
    ends = np.cumsum(lasts.reshape(programs, -1), axis=1).reshape(lasts.shape)
    begins = ends - lasts
    whole = ends[:, -1, -1] + 50
    slot = np.arange(programs) % SMS
    offset = np.zeros(programs)
    for sm in range(SMS):
        offset[sm::SMS] = np.r_[0, np.cumsum(whole[sm::SMS])[:-1]]
    columns: dict[str, list[np.ndarray]] = {}
    for warp in range(WARPS):
        mine, other = warp % 2, 1 - warp % 2
        parts = [
            (1 + mine, begins[:, :, mine], ends[:, :, mine]),
            (3 + mine, begins[:, :, other], ends[:, :, other]),  # it waits meanwhile
            (0, np.zeros((programs, 1)), whole[:, None]),
        ]
        for region, start, stop in parts:
            shape = np.ones(start.shape)
            for name, values in (
                ("program", np.arange(programs)[:, None] * shape), ("unit", slot[:, None] * shape),
                ("stream", warp * shape), ("region", region * shape), ("start", start + offset[:, None]),
                ("stop", stop + offset[:, None]),
            ):  # fmt: skip
                columns.setdefault(name, []).append(values.ravel().astype(np.int64))
    count = programs * steps
    program, unit = np.repeat(np.arange(programs), steps), np.repeat(slot, steps)
    edges = {"launch": np.zeros(count, np.int64), "kind": np.array(["arrive-wait"] * count)}
    for end, stream, region in (("from", 0, 1), ("to", 1, 4)):
        edges |= {
            f"{end}_program": program, f"{end}_unit": unit, f"{end}_stream": np.full(count, stream),
            f"{end}_region": np.full(count, region), f"{end}_ns": (ends[:, :, 0] + offset[:, None]).ravel(),
        }  # fmt: skip
    edges["from_ns"] = edges["from_ns"] - 1.0
    names = ("k", "load @ 2", "dot @ 3", "wait @ 1", "wait @ 4")
    kinds = ("kernel", "load", "dot", "wait", "wait")
    regions = [
        Region(n, name, kind, 0 if n else None, 0, "k.py", n, n)
        for n, (name, kind) in enumerate(zip(names, kinds))
    ]
    made = {name: np.concatenate(values) for name, values in columns.items()}
    made["kind"] = np.where(made["region"] >= 3, "wait", "region")
    return Trace.build(
        made,
        kernels=[Kernel(0, "k", "sim:a100", Clock(1e9, "simulated"), streams=("a", "b", "c", "d"))],
        launches=[Launch(0, 0, (programs,), 0.0, float(made["stop"].max()))],
        regions=regions,
        units=[Unit(n, f"SM {n}", "sm") for n in range(SMS)],
        edges=edges,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=1_000_000)
    parser.add_argument("--tool", choices=tuple(BUILT_IN), help="only this one")
    args = parser.parse_args()
    rows: list[dict] = []
    for name, made in (("cores", large_trace), ("units", units), ("warps", warps)):
        trace = made(args.intervals)
        for tool in (args.tool,) if args.tool else BUILT_IN:
            before = time.process_time()
            load_tool(tool).read(trace)
            seconds = time.process_time() - before
            rows.append(
                {"trace": name, "intervals": trace.intervals.height, "tool": tool, "seconds": seconds}
            )
            print(f"{name:<8}{trace.intervals.height:>10,}  {tool:<14}{seconds:>7.2f} s", flush=True)
    save("tools", {"rows": rows})
    slow = [f"{row['tool']} on {row['trace']}" for row in rows if row["seconds"] > SECONDS]
    print(f"above {SECONDS:g} s: {', '.join(slow)}" if slow else f"all within {SECONDS:g} s")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
