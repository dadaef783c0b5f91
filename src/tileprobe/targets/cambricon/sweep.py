"""`tileprobe llm sweep`: every combination of some parameters, as a table and a plot.

How points run, and what becomes of them, is the business of `tileprobe.sweeps`; here is what is of language models.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.files import write_json
from tileprobe.sweeps.outcome import DONE
from tileprobe.sweeps.plot import plot_sweep
from tileprobe.sweeps.points import grid, parse_axes
from tileprobe.sweeps.run import running
from tileprobe.sweeps.table import frame_of, print_table, say_failed, write_table
from tileprobe.targets.cambricon.command import check_say
from tileprobe.targets.cambricon.points import FIGURES, columns, fixed_of, value_of, work
from tileprobe.targets.cambricon.points_told import told_of
from tileprobe.targets.cambricon.report import print_assumed

KIND = "tileprobe llm"  # a sweep and a search may share a file: their points are the same
LABELS = {
    "tokens_per_s": "tokens/s",
    "latency_ms": "latency of a step (ms)",
    "channel_use": "channel use (share of time)",
    "channel_gb_per_token": "bytes over the channels (GB a token)",
    "joules_per_token": "energy (J a token)",
    "alpha": "share of pages computed in flash",
}
SHOWN = {
    "tokens_per_s": "tokens/s", "latency_ms": "ms", "channel_use": "channels", "channel_gb_per_token": "GB",
    "joules_per_token": "J", "alpha": "alpha",
}  # fmt: skip


def run_sweep_command(args: argparse.Namespace) -> int:
    """`tileprobe llm sweep`."""
    axes = parse_axes(args.vary, "--vary", value_of, "context=100,1000")
    fixed = fixed_of(args)
    if "model" not in fixed and "model" not in axes:
        raise TileProbeError("say which model: --model opt-6.7b, or --vary model=opt-6.7b,opt-13b")
    check_say(fixed, axes)
    if args.plot not in FIGURES:  # before an hour of work, not after
        raise TileProbeError(f"--plot {args.plot}: a point has no such figure; it has {', '.join(FIGURES)}")
    count = math.prod(map(len, axes.values()))
    with running("sweep", args, work(), KIND) as sweep:
        sweep.run(grid(fixed, axes), count)
        frame = frame_of(sweep.entries(), columns)
        told = told_of(entry["settings"] for entry in sweep.entries() if entry["outcome"] == DONE)
    path = write_table(frame, Path(f"{args.out}.parquet"))
    if "tokens_per_s" in frame.columns:
        print_table(frame, list(axes), list(SHOWN), SHOWN, ("tokens_per_s", True))
        print_assumed(told.assumed, told.notes)
    failed = say_failed(frame, list(axes))
    summary = {"schema": 1, "points": frame.height, "failed": failed, **told.to_json()}
    write_json(f"{args.out}.json", summary)
    picture = _picture(frame, args, axes)
    print(f"\n{path}: {frame.height:,} points; what they assume in {args.out}.json{picture}")
    return 1 if failed == frame.height else 0


def _picture(frame: pl.DataFrame, args: argparse.Namespace, axes: dict[str, list[Any]]) -> str:
    if "tokens_per_s" not in frame.columns:  # not one point has a result
        return ""
    one = [frame[name].unique().to_list() for name in ("model", "device")]
    title = " on ".join(names[0] for names in one if len(names) == 1)
    label = str(LABELS.get(args.plot, args.plot.replace("_", " ")))
    picture = plot_sweep(frame, list(axes), args.plot, Path(f"{args.out}.png"), label, title)
    return f"; plot in {picture}" if picture else "; no plot: pip install matplotlib"
