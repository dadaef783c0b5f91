"""Damaged trace files: bytes, the description, the columns. The commands that read traces must say what is wrong."""

from __future__ import annotations

import json
import math
import random
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fuzz.inputs.mutate import FLOATS, NUMBERS, TEXTS, bytes_like, json_like
from tileprobe.trace import Clock, Kernel, Launch, Losses, Region, Trace, Unit
from tileprobe.trace.file import KEY

TOOLS = ("regions", "source", "iterations", "programs", "units")


@lru_cache(maxsize=1)
def corpus() -> list[bytes]:
    """Small traces: a plain one, one of several kernels and units, one with edges and counters."""
    return [_saved(made(1, 1)), _saved(made(2, 3)), _saved(made(1, 2, others=True))]


def made(kernels: int, launches: int, others: bool = False) -> Trace:
    """Loops with iterations and stages, in a handful of programs."""
    rows: list[tuple[int, ...]] = []
    table, regions = [], []
    for kernel in range(kernels):
        first = 4 * kernel
        names = (
            ("k", "kernel", None),
            ("loop @ 3", "loop", 0),
            ("iteration", "iteration", 1),
            ("dot @ 4", "dot", 2),
        )
        regions += [
            Region(first + n, name, kind, None if up is None else first + up, kernel, "k.py", 2 + n, 5, n)
            for n, (name, kind, up) in enumerate(names)
        ]
        for launch in range(kernel * launches, (kernel + 1) * launches):
            table.append(Launch(launch, kernel, (3,), 1000.0 * launch, 900.0, losses=Losses(12, 0, 1)))
            for program in range(3):
                at = 2000 * launch + 40 * program
                rows += [(launch, program, program % 2, first + n, -1, at + n, at + 90 - n) for n in range(2)]
                rows += [
                    (launch, program, program % 2, first + n, i, at + 10 + 20 * i + n, at + 28 + 20 * i - n)
                    for i in range(3)
                    for n in (2, 3)
                ]
    keys = ("launch", "program", "unit", "region", "iteration", "start", "stop")
    return Trace.build(
        {key: np.array(column) for key, column in zip(keys, zip(*rows))},
        kernels=[
            Kernel(
                n, f"kernel{n}", "cpu", Clock(2e9), "k.py", 1, "def k():\n  a\n  b\n  c\n  d\n", {"ttir": "x"}
            )
            for n in range(kernels)
        ],
        launches=table,
        regions=regions,
        units=[Unit(0, "core 0"), Unit(1, "core 1")],
        meta={"tileprobe": "0.1.0", "kernels_seen": {"k": 3}, "problems": {}, "notes": ["a note"]},
        edges={"kind": ["arrive-wait"], "from_tick": [5], "to_tick": [9]} if others else None,
        counters={"name": ["bytes"], "value": [3.0], "line": [4], "file": ["k.py"]} if others else None,
    )


def _saved(trace: Trace) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        trace.save(path)
        return path.read_bytes()


def damaged(draw: random.Random) -> bytes:
    """A trace file with something wrong in it."""
    data = draw.choice(corpus())
    what = draw.random()
    if what < 0.35:
        return bytes_like(data, draw)
    frame = pl.read_parquet(BytesIO(data))
    head = json.loads(pl.read_parquet_metadata(BytesIO(data))[KEY])
    if what < 0.7:
        head = json_like(head, draw)
    else:
        frame = _columns_like(frame, draw)
    out = BytesIO()
    text = json.dumps(head) if draw.random() < 0.97 else json.dumps(head)[: draw.randrange(200)]
    frame.write_parquet(out, metadata={KEY: text.encode("utf-8", "replace").decode("utf-8")})
    return out.getvalue()


def _columns_like(frame: pl.DataFrame, draw: random.Random) -> pl.DataFrame:
    for _ in range(draw.choice((1, 1, 2))):
        if not frame.width:
            break
        name = draw.choice(frame.columns)
        what = draw.randrange(7)
        if what == 0:
            frame = frame.drop(name)
        elif what == 1:
            new = draw.choice((name.upper(), "x"))
            frame = frame if new in frame.columns else frame.rename({name: new})
        elif what == 2:
            frame = frame.with_columns(
                pl.lit(None, draw.choice((pl.Int64, pl.String, pl.Float64))).alias(name)
            )
        elif what == 3:
            values: list[Any] = [*(n for n in NUMBERS if abs(n) < 2**63), *FLOATS, *TEXTS[:6]]
            frame = frame.with_columns(pl.lit(draw.choice(values)).alias(name))
        elif what == 4:
            frame = _cells(frame, name, draw)
        elif what == 5:
            frame = frame.head(draw.choice((0, 1, 5)))
        else:
            frame = frame.sample(fraction=1.0, shuffle=True, seed=draw.randrange(1000))
    return frame


def _cells(frame: pl.DataFrame, name: str, draw: random.Random) -> pl.DataFrame:
    """Some cells of a column hold what fits its type and means nothing."""
    column = frame[name]
    if not column.dtype.is_numeric() or not frame.height:
        return frame
    values = column.to_list()
    for _ in range(draw.choice((1, 3))):
        at = draw.randrange(len(values))
        if column.dtype.is_float():
            values[at] = draw.choice(FLOATS)
        else:
            low, high = (0, 2**16 - 1) if column.dtype.is_unsigned_integer() else (-(2**31), 2**31 - 1)
            values[at] = draw.choice((low, high, 3, 99, None))
    clean = [None if isinstance(v, float) and math.isnan(v) and draw.random() < 0.5 else v for v in values]
    return frame.with_columns(pl.Series(name, clean, dtype=column.dtype))


def command(draw: random.Random, folder: Path) -> list[str]:
    """A command that reads a damaged trace."""
    path = folder / "damaged.parquet"
    path.write_bytes(damaged(draw))
    whole = folder / "whole.parquet"
    if not whole.exists():
        whole.write_bytes(corpus()[0])
    what = draw.random()
    if what < 0.15:
        both = [str(path), str(whole)]
        draw.shuffle(both)
        return ["compare", *both, *(["--json", "-"] if draw.random() < 0.3 else [])]
    if what < 0.25:
        return ["inspect", "--level", draw.choice(("ttir", "tile", "record")), str(path)]
    words = ["report", str(path)]
    if draw.random() < 0.15:
        words.append(str(whole))
    for tool in draw.sample(TOOLS, draw.choice((0, 0, 1, 5))):
        words += ["--tool", tool]
    if draw.random() < 0.3:
        words += ["--json", draw.choice(("-", str(folder / "out.json")))]
    if draw.random() < 0.3:
        words += ["--chrome", str(folder / "out.chrome")]
    if draw.random() < 0.2:
        words += ["--kernel", draw.choice(("*", "k*", "x", "["))]
    if draw.random() < 0.2:
        words.append("--full")
    return words
