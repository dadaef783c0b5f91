"""Sweeps: every combination of some parameters, in parallel on all cores, resumable; results as Parquet
and a plot.

A point is a dictionary of settings with a key made of them and of the engine's sources; points whose key
is in the file already are not run again. The file is rewritten whole as results come in, so a sweep can
be stopped at any time.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import polars as pl

from tileprobe.errors import TileProbeError
from tileprobe.files import write_file
from tileprobe.targets.cambricon.command import parse_changes, parse_value, settings_of
from tileprobe.targets.cambricon.machine import _find_constant

# settings of a run that can be varied beside the constants of the device, with the type they have in a table
OPTIONS = {
    "model": str, "device": str, "context": int, "weights": str, "tiling": str, "tile": str, "mode": str,
    "kv": str, "batch": int, "verify": int, "acceptance": float, "prefill_split": bool,
    "routing": str, "seed": int, "expert_cache": float,
    "slicing": bool, "mha": bool, "lm_head": bool, "prefill": bool, "channels": int, "chips_per_channel": int,
}  # fmt: skip
ENGINE = Path(__file__).parent / "engine"
RESULTS = ("tokens_per_s", "latency_ms", "channel_use", "channel_gb_per_token", "joules_per_token", "alpha")


def parse_axes(texts: list[str]) -> dict[str, list[Any]]:
    """`["context=100,1000", "read_us=20,30"]` as names and values."""
    axes: dict[str, list[Any]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not values:
            raise TileProbeError(f"--vary {text!r}: write NAME=A,B,..., such as context=100,1000")
        if name in axes:
            raise TileProbeError(f"--vary {name} is given twice")
        if name not in OPTIONS:
            _find_constant(name)  # raises for a name that no device has
        kind = OPTIONS.get(name)
        axes[name] = [value.strip() if kind is str else parse_value(value) for value in values.split(",")]
    return axes


def points(fixed: dict[str, Any], axes: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Settings of every combination."""
    for values in itertools.product(*axes.values()):
        yield {**fixed, **dict(zip(axes, values))}


def key_of(point: dict[str, Any]) -> str:
    """What a result depends on: the settings, the files they name as they are now, and the engine."""
    from tileprobe.targets.jit import sources_hash

    try:
        model, machine, _ = settings_of(_given(point))
        files = hashlib.sha256(repr((model, machine)).encode()).hexdigest()[:16]
    except TileProbeError:
        files = ""  # running it will say why
    return json.dumps({**point, "files": files, "engine": sources_hash(ENGINE)}, sort_keys=True, default=str)


def _given(point: dict[str, Any]) -> dict[str, Any]:
    given = {k: v for k, v in point.items() if k in OPTIONS}
    given["set"] = [f"{k}={v}" for k, v in point.items() if k not in OPTIONS and k != "set"]
    given["set"] += point.get("set", [])
    return given


def run_point(point: dict[str, Any]) -> dict[str, Any]:
    """One row of the table. A mistake in one point is a row with an `error`, so that the others go on."""
    from tileprobe.targets.cambricon.simulate import simulate

    row: dict[str, Any] = {"key": key_of(point), "error": None, **_columns(point)}
    started = time.perf_counter()
    try:
        result = simulate(*settings_of(_given(point))).to_json()
    except TileProbeError as error:
        row["error"] = str(error)
        return row
    row.update({name: float(result[name]) for name in RESULTS})
    row.update(
        page_commands=result["page_commands"], tile_rows=result["tile"][0], tile_cols=result["tile"][1]
    )
    for name, unit in result["units"].items():
        row[f"{name}_busy"] = float(unit["busy"])
    row["seconds"] = time.perf_counter() - started
    return row


def _columns(point: dict[str, Any]) -> dict[str, Any]:
    """Settings as columns of one type each; a list of changes becomes text."""
    return {k: " ".join(v) if isinstance(v, list) else v for k, v in point.items() if v is not None}


def run_sweep(
    wanted: list[dict[str, Any]], path: Path, jobs: int = 0, restart: bool = False, bar=None
) -> pl.DataFrame:
    """Run what is not in the file yet and return the table of the wanted points, in their order."""
    rows = {} if restart else _load(path)
    keys = [key_of(point) for point in wanted]
    todo = [point for key, point in zip(keys, wanted) if key not in rows or rows[key].get("error")]
    if bar is not None:
        bar(len(wanted) - len(todo), len(wanted))
    jobs = min(jobs or os.cpu_count() or 1, max(len(todo), 1))
    saved = time.monotonic()
    for done, row in enumerate(_run_all(todo, jobs), 1):
        rows[row["key"]] = row
        if time.monotonic() - saved > 1.0:
            _save(path, rows)
            saved = time.monotonic()
        if bar is not None:
            bar(len(wanted) - len(todo) + done, len(wanted))
    _save(path, rows)
    return pl.DataFrame([rows[key] for key in keys], infer_schema_length=None)


def _run_all(todo: list[dict[str, Any]], jobs: int) -> Iterator[dict[str, Any]]:
    if not todo:
        return
    yield run_point(todo[0])  # compiles the engine once, before the others would each do it
    rest = todo[1:]
    if jobs == 1 or not rest:
        yield from map(run_point, rest)
        return
    from multiprocessing import get_context

    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(run_point, point) for point in rest]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _load(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise TileProbeError(
            f"{path} cannot be resumed, it is damaged ({error}); use --restart or another --out"
        ) from None
    if "key" not in frame.columns:
        raise TileProbeError(f"{path} is not the result of a sweep; use another --out")
    return {row["key"]: row for row in frame.to_dicts()}


def _save(path: Path, rows: dict[str, dict[str, Any]]) -> None:
    buffer = io.BytesIO()
    pl.DataFrame(list(rows.values()), infer_schema_length=None).write_parquet(buffer)
    write_file(path, buffer.getvalue())


def run_sweep_command(args: argparse.Namespace) -> int:
    """`tileprobe llm sweep`."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    axes = parse_axes(args.vary)
    fixed: dict[str, Any] = {
        "model": args.model, "device": args.device, "context": args.context, "weights": args.weights,
        "tiling": args.tiling, "tile": args.tile, "mha": args.mha, "lm_head": args.lm_head,
        "prefill": args.prefill, "slicing": not args.no_slicing, "kv": args.kv, "routing": args.routing,
        "batch": args.batch, "verify": args.verify, "acceptance": args.acceptance,
        "prefill_split": args.prefill_split,
        "seed": args.seed,
        "expert_cache": args.expert_cache,
        "mode": "flash-only" if args.flash_only else "npu-only" if args.npu_only else "split",
    }  # fmt: skip
    fixed.update(
        {
            k: v
            for k, v in (("channels", args.channels), ("chips_per_channel", args.chips_per_channel))
            if v is not None
        }
    )
    if args.set:
        parse_changes(args.set)
        fixed["set"] = args.set
    if fixed["model"] is None and "model" not in axes:
        raise TileProbeError("say which model: --model opt-6.7b, or --vary model=opt-6.7b,opt-13b")
    wanted = list(points(fixed, axes))
    path = Path(f"{args.out}.parquet")
    console = Console(stderr=True)
    columns = (TextColumn("sweep"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=not console.is_terminal) as progress:
        task = progress.add_task("sweep", total=len(wanted))
        frame = run_sweep(
            wanted,
            path,
            args.jobs,
            args.restart,
            lambda done, total: progress.update(task, completed=done, total=total),
        )
    print_table(frame, list(axes))
    print(f"\n{path}: {len(wanted)} points", end="")
    from tileprobe.targets.cambricon.plot import plot_sweep

    picture = plot_sweep(frame, list(axes), args.plot, Path(f"{args.out}.png"))
    print(f"; plot in {picture}" if picture else "; no plot: pip install matplotlib")
    failed = frame.filter(pl.col("error").is_not_null()).height
    if failed:
        print(f"tileprobe: {failed} of {len(wanted)} points failed, see their error above", file=sys.stderr)
    return 1 if failed == len(wanted) else 0


def print_table(frame: pl.DataFrame, axes: list[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for n, name in enumerate((*axes, "tokens/s", "ms", "channels", "GB", "J", "alpha")):
        table.add_column(
            name, justify="left" if n < len(axes) else "right", header_style="dim", no_wrap=n < len(axes)
        )
    failed = []
    for row in frame.to_dicts():
        shown = [str(row[name]) for name in axes]
        if row.get("error"):
            table.add_row(*shown, "[red]error[/]")
            failed.append((", ".join(f"{name} {row[name]}" for name in axes), row["error"]))
            continue
        table.add_row(
            *shown, f"{row['tokens_per_s']:.3g}", f"{row['latency_ms']:.2f}", f"{row['channel_use']:.1%}",
            f"{row['channel_gb_per_token']:.3f}", f"{row['joules_per_token']:.3f}", f"{row['alpha']:.3f}",
        )  # fmt: skip
    console = Console()
    console.print(table, highlight=False)
    for where, error in failed:
        console.print(f"[red]{where}[/]: {error}", highlight=False, markup=True)
