"""Damaged IR: what `tileprobe opt` reads, at every level, through every pass."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

from fuzz.inputs.mutate import NUMBERS, TEXTS, bytes_like, text_like

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("fuzz/inputs/corpus/*", "tests/passes/filecheck/*.mlir", "tests/cambricon/filecheck/*.mlir")
PIPELINES = (
    "",
    "schedule",
    "select",
    "select,instrument",
    "select,instrument,merge-probes",
    "select,instrument,merge-probes,sample,assign-slots",
    "select,instrument,merge-probes,sample,assign-slots,probe-to-record",
    "schedule,select{structure=tile},instrument{structure=tile}",
)


@lru_cache(maxsize=1)
def corpus() -> list[str]:
    files = [path for place in PLACES for path in sorted(ROOT.glob(place)) if path.is_file()]
    return [path.read_text(encoding="utf-8") for path in files]


@lru_cache(maxsize=1)
def passes() -> list[str]:
    from tileprobe.passes import available

    return sorted(available())


def damaged(draw: random.Random) -> bytes:
    text = draw.choice(corpus())
    if draw.random() < 0.12:
        return bytes_like(text.encode(), draw)
    return text_like(text, draw, corpus()).encode(
        "utf-8", "surrogateescape" if draw.random() < 0.5 else "replace"
    )


def pipeline(draw: random.Random) -> str:
    what = draw.random()
    if what < 0.6:
        return draw.choice(PIPELINES)
    if what < 0.8:
        return ",".join(draw.choices(passes(), k=draw.randrange(1, 5)))
    if what < 0.9:
        option = draw.choice(
            ("kinds", "lines", "capacity", "structure", "scopes", "clock_bits", "copies", "x")
        )
        value = draw.choice((*map(str, NUMBERS), *TEXTS[:8], "dot", "1-3", '"a@1-2"', "tile", "scf"))
        return f"{draw.choice(passes())}{{{option}={value}}}"
    return text_like(draw.choice(PIPELINES[1:]), draw, list(PIPELINES[1:]))


def command(draw: random.Random, folder: Path) -> list[str]:
    path = folder / "damaged.mlir"
    path.write_bytes(damaged(draw))
    words = ["opt", str(path), "-p", pipeline(draw).replace("\0", "")]
    if draw.random() < 0.15:
        words += ["--target", draw.choice(("cpu", "cambricon", "cuda", "none", ""))]
    words += [flag for flag in ("--generic", "--between") if draw.random() < 0.1]
    return words
