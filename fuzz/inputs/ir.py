"""Damaged IR: what `tileprobe opt` reads, at every level, through every pass."""

from __future__ import annotations

import random
import re
from functools import lru_cache
from pathlib import Path

from fuzz.inputs.mutate import NUMBERS, TEXTS, bytes_like, text_like
from fuzz.inputs.structure import structured

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


# What the files of the corpus are made for; those of the tests say it in their first line.
USUAL = {
    ".ttir": "schedule",
    ".tile": "select{structure=tile},instrument{structure=tile},merge-probes{structure=tile},sample{structure=tile},"
    "assign-slots{structure=tile},probe-to-record{structure=tile}",
}


@lru_cache(maxsize=1)
def corpus() -> list[tuple[str, str]]:
    """Texts, each with the passes it is made for."""
    files = [path for place in PLACES for path in sorted(ROOT.glob(place)) if path.is_file()]
    found = []
    for path in files:
        for text in path.read_text(encoding="utf-8").split("// -----"):
            said = re.search(r"// PASSES: (.*)", text)
            # checks are comments: without them a change is more likely to hit the IR
            body = "\n".join(line for line in text.split("\n") if not line.strip().startswith("// "))
            found.append((body, said[1].strip() if said else USUAL.get(path.suffix, "")))
    return found


@lru_cache(maxsize=1)
def passes() -> list[str]:
    from tileprobe.passes import available

    return sorted(available())


def damaged(draw: random.Random, text: str) -> bytes:
    what = draw.random()
    if what < 0.7:
        return structured(text, draw).encode()
    if what < 0.75:
        return bytes_like(text.encode(), draw)
    others = [other for other, _ in corpus()]
    return text_like(text, draw, others).encode(
        "utf-8", "surrogateescape" if draw.random() < 0.1 else "replace"
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
    text, usual = draw.choice(corpus())
    path.write_bytes(damaged(draw, text))
    passes = usual if draw.random() < 0.7 else pipeline(draw).replace("\0", "")
    words = ["opt", str(path), "-p", passes]
    if draw.random() < 0.15:
        words += ["--target", draw.choice(("cpu", "cambricon", "cuda", "none", ""))]
    words += [flag for flag in ("--generic", "--between") if draw.random() < 0.1]
    return words
