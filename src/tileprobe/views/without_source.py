"""A trace that can be given away: without the user's code, the IR it became, and the names of their folders."""

from __future__ import annotations

from dataclasses import replace

from tileprobe.trace import Trace


def without_source(trace: Trace) -> Trace:
    """Names of kernels, regions and files stay, and so do all times."""
    kernels = [
        replace(kernel, source="", ir={}, functions=(), file=file_name(kernel.file))
        for kernel in trace.kernels
    ]
    regions = [replace(region, file=file_name(region.file), parts=()) for region in trace.regions]
    meta = {key: value for key, value in trace.meta.items() if key != "command"}
    return replace(trace, kernels=kernels, regions=regions, meta=meta)


def file_name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
