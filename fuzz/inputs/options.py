"""Options that mean little or nothing, of every command; some programs launch a kernel, most do nothing."""

from __future__ import annotations

import random
from pathlib import Path

from fuzz.inputs.mutate import FLOATS, NUMBERS, TEXTS
from fuzz.inputs.traces import TOOLS, corpus

NOTHING = "import sys\nprint('ran', len(sys.argv))\n"
KERNEL = """
import numpy as np, tileprobe, triton, triton.language as tl
@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.load(x + at) * i
    tl.store(out + at, total)
x = tileprobe.array(np.ones(4096, np.float32)); out = tileprobe.array(np.zeros(4096, np.float32))
for n in (3, 5):
    kernel[(4,)](x, out, n, BLOCK=1024)
"""
ODD = (*map(str, NUMBERS), *map(str, FLOATS), *(text.replace("\0", "") for text in TEXTS))

FILES = ("nothing.py", "kernel.py", "whole.parquet", "tool.py")

# Options of `run` with what people write, and what they write by mistake.
RUN: dict[str, tuple[str, ...]] = {
    "--kernel": ("*", "k*", "[", "*attn*", "?"),
    "--skip": ("0", "1", "5"),
    "--take": ("1", "2"),
    "--tool": (*TOOLS, "x", "x.py:Y", ".py:", "tool.py:Good", "tool.py:Raises", "tool.py:Plans", "tool.py:None"),
    "--lines": ("1", "3-9", "9-3", "a-b", "-", "1-"),
    "--programs": ("auto", "all", "1%", "50%", "random:2", "random:-4", "random:0", "0,1", "nan%", "%", "random:"),
    "--iterations": ("all", "every:2", "first:1", "last:2", "every:0", "every:-1", "first:", ":", "last:999999999999"),
    "--capacity": ("1", "2", "256", "0", "-1", "3"),
    "--budget-mb": ("64", "0.01", "nan", "inf", "-1", "0", "1e300"),
    "--records": ("clock_bits=32", "clock_bits=64", "granularity=warp", "strategy=circular", "x=1", "=", "clock_bits="),
    "--target": ("cpu", "cambricon", "cambricon:s", "cuda", "cpu:0", "x", "tool.py:Good", ":", "cambricon:"),
    "--threads": ("1", "2", "0", "-1"),
    "--device-map": ("cuda=cpu", "cuda=", "=", "cpu=cuda", "x"),
    "--seed": ("0", "7", "-1"),
    "--trace": ("out.parquet", "no/out", "folder", "link", "-", "fifo-not-there/x"),
    "--json": ("out.json", "-", "folder", "link", "circle"),
    "--chrome": ("out.chrome", "folder", "out.json"),
}  # fmt: skip
FLAGS = ("--dense", "--no-alternate", "--quiet", "--full")
OTHER: dict[str, tuple[str, ...]] = {
    "report": (
        "whole.parquet",
        "absent",
        "folder",
        "tool.py",
        "--tool",
        "--json",
        "--chrome",
        "--kernel",
        "--full",
    ),
    "compare": ("whole.parquet", "absent", "tool.py", "--json", "--kernel", "-"),
    "inspect": ("whole.parquet", "--level", "--kernel", "--dense", "--target", "nothing.py", "-m"),
    "opt": ("tool.py", "absent", "folder", "-p", "--target", "--list", "-o", "--generic"),
    "exec": ("--target", "--threads", "--no-cuda", "nothing.py", "-m", "json.tool", "--"),
    "llm": (
        "--model",
        "opt-125m",
        "--device",
        "cambricon:s",
        "--context",
        "--tile",
        "--channels",
        "--set",
        "--ir",
    ),
    "x": ("y",),
}


def prepare(folder: Path) -> None:
    """The files that options name, and no others: a case must not run what another one wrote."""
    for path in folder.iterdir():
        if path.is_file() and not path.is_symlink() and path.name not in FILES:
            path.unlink()
    if (folder / "tool.py").exists():
        return
    (folder / "nothing.py").write_text(NOTHING)
    (folder / "kernel.py").write_text(KERNEL)
    (folder / "whole.parquet").write_bytes(corpus()[0])
    (folder / "folder").mkdir()
    (folder / "link").symlink_to("linked")
    (folder / "circle").symlink_to("circle")
    (folder / "tool.py").write_text(
        "from tileprobe.tools.plan import Plan\nfrom tileprobe.tools.result import Result\n"
        "class Good:\n    name = 'good'\n    def plan(self): return Plan(loops=True)\n"
        "    def read(self, trace): return Result('good')\n"
        "class Raises(Good):\n    def read(self, trace): raise KeyError('k')\n"
        "class Plans(Good):\n    def plan(self): return [][3]\n"
    )


def command(draw: random.Random, folder: Path) -> list[str]:
    prepare(folder)
    if draw.random() < 0.25:
        return _other(draw)
    words = ["run"]
    for _ in range(draw.choice((1, 1, 2, 2, 3, 5))):
        name = draw.choice((*RUN, *FLAGS))
        words.append(name)
        if name in RUN:
            words.append(draw.choice(ODD if draw.random() < 0.2 else RUN[name]))
    if draw.random() < 0.03:
        return words
    return [
        *words,
        "kernel.py" if draw.random() < 0.1 else "nothing.py",
        *draw.choices(ODD, k=draw.choice((0, 1))),
    ]


def _other(draw: random.Random) -> list[str]:
    name = draw.choice(list(OTHER))
    return [name, *draw.choices((*OTHER[name], *draw.choices(ODD, k=2)), k=draw.randrange(5))]
