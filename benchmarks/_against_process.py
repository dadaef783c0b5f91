"""One side of `benchmarks.against`: the example kernels of the checkout it is started in, timed when asked.

Reads the name of a work a line, and answers with the best time of a quarter of a second. It is run with the files of
another checkout as well, so it imports nothing of this folder.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from examples.kernels import attention, matmul, softmax, vector_add

SECONDS, PAUSE_S = 0.25, 0.02  # a pause longer than the other side's idle threads spin


def works() -> dict[str, Callable[[], Any]]:
    torch.manual_seed(0)
    rows, short = torch.randn(2048, 4000), torch.randn(2048, 1000)
    a, b = torch.randn(1 << 24), torch.randn(1 << 24)
    square = [torch.randn(1024, 1024) for _ in range(2)]
    ragged = torch.randn(1000, 1100), torch.randn(1100, 1050)
    q, k, v = (torch.randn(8, 1024, 64) for _ in range(3))
    outs = [torch.empty_like(t) for t in (rows, short, a, q)]
    made, odd, sums = torch.empty(1024, 1024), torch.empty(1000, 1050), torch.empty(8, 1024)
    return {
        "softmax 2048x4000": lambda: softmax.softmax(rows, outs[0]),
        "softmax 2048x1000": lambda: softmax.softmax(short, outs[1]),
        "add 16M": lambda: vector_add.add(a, b, outs[2]),
        "matmul 1024^3": lambda: matmul.matmul(*square, made),
        "matmul 1000x1050x1100": lambda: matmul.matmul(*ragged, odd),
        "attention 8x1024x64": lambda: attention.forward(q, k, v, outs[3], sums, False, (64, 64)),
        "attention, causal": lambda: attention.forward(q, k, v, outs[3], sums, True, (64, 64)),
    }


def best(run: Callable[[], Any]) -> float:
    time.sleep(PAUSE_S)
    run()
    fastest, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - start)
    return fastest


def main() -> None:
    known = works()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        print(best(known[line.strip()]), flush=True)


if __name__ == "__main__":
    main()
