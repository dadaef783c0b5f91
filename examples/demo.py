"""`make demo`: two stock Triton kernels on this machine's CPU, checked and timed; then a look inside one of them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import numpy as np
from rich.console import Console
from rich.table import Table

import tileprobe
from examples.kernels import attention, matmul
from tileprobe.views.html import write_html

OUT = ROOT / "out"
LAUNCHES = 200  # about a second: enough that shares can be trusted beside a process or two


def best_of(run: Callable[[], Any], rounds: int = 7) -> float:
    """Seconds of the fastest of some rounds."""
    run()  # compiles
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def arrays(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    return [tileprobe.array(random.standard_normal(shape).astype(np.float32)) for shape in shapes]


def main() -> None:
    console = Console()
    console.rule("stock @triton.jit kernels as machine code, on this CPU")
    heads, length, dim = 8, 1024, 64
    q, k, v, out = arrays(*[(heads, length, dim)] * 4)
    (lse,) = arrays((heads, length))
    a, b, c = arrays(*[(1024, 1024)] * 3)

    def run_attention() -> None:
        attention.forward(q, k, v, out, lse, False, (128, 64))

    def run_matmul() -> None:
        matmul.matmul(a, b, c, (128, 128, 32))

    table = Table("kernel", "work", "time", "speed", "largest error")
    seconds = best_of(run_attention)
    table.add_row(
        "attention, f32", f"{heads} heads, {length} x {dim}", f"{seconds * 1e3:.2f} ms",
        f"{4e-9 * heads * length * length * dim / seconds:.0f} GFLOP/s", f"{attention_error(q, k, v, out):.1e}",
    )  # fmt: skip
    seconds = best_of(run_matmul)
    error = np.abs(c.numpy() - a.numpy().astype(np.float64) @ b.numpy()).max()
    table.add_row(
        "matmul, f32",
        "1024 x 1024 x 1024",
        f"{seconds * 1e3:.2f} ms",
        f"{2.147 / seconds:.0f} GFLOP/s",
        f"{error:.1e}",
    )
    console.print(table)
    console.print(f"{len(os.sched_getaffinity(0))} cores; checked against NumPy in double precision.\n")

    console.rule("inside the attention kernel")
    with tileprobe.profile() as session:
        for _ in range(LAUNCHES):
            run_attention()
    session.report()
    OUT.mkdir(exist_ok=True)
    trace, page = OUT / "attention.parquet", OUT / "attention.html"
    session.trace.save(trace)
    write_html(session.trace, page)
    shown = trace.relative_to(ROOT)
    print(f"\nThe report as a page, with a timeline: {page.as_uri()}")
    print(f"The trace is in {shown}. Next:")
    print(f"  .venv/bin/tileprobe report {shown} --tool programs")
    print(f"  .venv/bin/tileprobe export {shown} --to perfetto    # or speedscope, hatchet, ...")
    print("  .venv/bin/tileprobe run your_script.py    # any script that launches Triton kernels")
    print("  .venv/bin/tileprobe llm --model opt-6.7b --device cambricon:l")


def attention_error(q: Any, k: Any, v: Any, out: Any) -> float:
    queries, keys, values = (x.numpy().astype(np.float64) for x in (q, k, v))
    scores = queries @ keys.transpose(0, 2, 1) / np.sqrt(queries.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    want = weights / weights.sum(axis=-1, keepdims=True) @ values
    return float(np.abs(out.numpy() - want).max())


if __name__ == "__main__":
    main()
