"""Our timeline in a trace of `torch.profiler`: below what torch saw on the host, the launches and what is inside them.

In come a trace and a file that `export_chrome_trace` wrote of the same run; out goes one file with both, for
ui.perfetto.dev. Both know the time of day, which lays them side by side. A simulated machine has a time of its own:
its launches are drawn from where the host made them, on a process that says so, and a flow joins the two.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.files import write_file
from tileprobe.trace import Kernel, Launch, Trace
from tileprobe.views.chrome import chrome_events
from tileprobe.views.encodable import encodable

HOST = "launches, seen by TileProbe"


def write_merged(trace: Trace, torch_file: str, path: str | os.PathLike[str]) -> None:
    write_file(path, merged(trace, torch_file))


def merged(trace: Trace, torch_file: str) -> Iterator[str]:
    """The file in pieces of text."""
    trace = encodable(trace)
    torch = _read(torch_file)
    origin = trace.meta.get("origin_unix_ns")
    if origin is None:
        raise TileProbeError(
            "the trace does not know when it was recorded: record it again with this version"
        )
    ahead = origin - int(torch.get("baseTimeNanoseconds") or 0)
    events = torch.pop("traceEvents")
    first = 1 + max((e["pid"] for e in events if isinstance(e.get("pid"), int)), default=0)
    ours = [*_ours(trace, ahead, first), *_launches(trace, ahead, first)]
    head = json.dumps({**torch, "traceEvents": []})
    yield head[:-2]
    separator = "\n"
    for event in (*events, *ours):
        yield separator + json.dumps(event)
        separator = ",\n"
    yield "\n]}\n"


def _read(file: str) -> dict[str, Any]:
    try:
        opener = gzip.open if file.endswith(".gz") else open
        with opener(file, "rt", encoding="utf-8") as stream:
            found = json.load(stream)
    except (OSError, ValueError) as error:
        raise TileProbeError(f"cannot read {file}: {error}") from error
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise TileProbeError(f"{file} is no trace of torch.profiler: it has no traceEvents")
    return found


def _ours(trace: Trace, ahead: int, first: int) -> Iterator[dict[str, Any]]:
    """The events of our own timeline, moved to torch's time and to processes behind torch's."""
    drawn = json.loads("".join(chrome_events(trace)))["traceEvents"]
    shifts = _shifts(trace)
    simulated = {kernel.id for kernel in trace.kernels if is_simulated(kernel)}
    launches = {launch.id: launch.kernel for launch in trace.launches}
    common = next(iter(shifts.values()), 0.0)
    for event in drawn:
        kernel = event["pid"]
        event["pid"] = first + 1 + kernel
        if event["ph"] == "M" and event["name"] == "process_name" and kernel in simulated:
            event["args"]["name"] += ": simulated time, from where the host launched it"
        if "ts" in event:
            launch = event.get("args", {}).get("launch")
            shift = shifts.get(launch, common) if launch in launches else common
            event["ts"] = round(
                event["ts"] + round(ahead + shift) / 1e3, 3
            )  # whole ns: slices nest as before
        if "id" in event:
            event["id"] = f"tileprobe {event['id']}"
        yield event


def is_simulated(kernel: Kernel) -> bool:
    """Its times are those of a machine that is not this one."""
    return kernel.layout is None or kernel.clock.is_simulated


def _shifts(trace: Trace) -> dict[int, float]:
    """What each launch's intervals are moved by, so that they lie within the launch as the host saw it. On this machine
    it is the same for all: their clock and the host's run alike."""
    spans = trace.scan().group_by("launch").agg(pl.col("start_ns").min(), pl.col("stop_ns").max()).collect()
    found = {launch: (start, stop) for launch, start, stop in spans.iter_rows()}
    kernels = {kernel.id: kernel for kernel in trace.kernels}
    shifts: dict[int, float] = {}
    least, most = [], []
    for launch in trace.launches:
        if launch.id not in found or launch.start_ns is None:
            continue
        start, stop = found[launch.id]
        shifts[launch.id] = launch.start_ns - start
        if not is_simulated(kernels[launch.kernel]) and launch.duration_ns:
            least.append(launch.start_ns - start)
            most.append(launch.start_ns + launch.duration_ns - stop)
    if least:
        middle = (max(least) + max(min(most), max(least))) / 2
        shifts = {
            launch.id: shifts[launch.id] if is_simulated(kernels[launch.kernel]) else middle
            for launch in trace.launches
            if launch.id in shifts
        }
    return shifts


def _launches(trace: Trace, ahead: int, pid: int) -> Iterator[dict[str, Any]]:
    """The launches as the host saw them, each with a flow to a simulated one."""
    kernels = {kernel.id: kernel for kernel in trace.kernels}
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": HOST}}
    for launch in trace.launches:
        if launch.start_ns is None:
            continue
        kernel = kernels[launch.kernel]
        at = round((ahead + launch.start_ns) / 1e3, 3)
        yield {
            "ph": "X",
            "name": kernel.name,
            "cat": "launch",
            "pid": pid,
            "tid": 0,
            "ts": at,
            "dur": round(_host_ns(launch, kernel) / 1e3, 3),
            "args": {"launch": launch.id, "probed": launch.probed, "grid": list(launch.grid)},
        }
        if is_simulated(kernel) and launch.probed:
            flow = {"name": "simulated", "cat": "launch", "id": f"tileprobe launch {launch.id}", "ts": at}
            yield {**flow, "ph": "s", "pid": pid, "tid": 0}
            yield {**flow, "ph": "f", "bp": "e", "pid": pid + 1 + kernel.id, "tid": 0}


def _host_ns(launch: Launch, kernel: Kernel) -> float:
    """How long the host saw it; of a simulated launch only that it began is known."""
    return 1e3 if is_simulated(kernel) else launch.duration_ns or 0.0
