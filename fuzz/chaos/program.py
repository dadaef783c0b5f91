"""The program that chaos is done to: launches kernels and says of each launch that it is over.

`python program.py steady N | threads N | pool METHOD N`. A line "launched 7" is printed once so many launches are over.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np
import triton
import triton.language as tl

import tileprobe


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        total += tl.exp(tl.load(x + at) * 0.001) * i
    tl.store(out + at, total)


def launch() -> None:
    x = tileprobe.array(np.ones(2048, np.float32))
    kernel[(2,)](x, tileprobe.array(np.zeros(2048, np.float32)), 5, BLOCK=1024)


def steady(count: int, pause: float = 0.01) -> None:
    for number in range(1, count + 1):
        launch()
        print("launched", number, flush=True)
        time.sleep(pause)


def threads(count: int) -> None:
    """Eight at a time, which outlive this function."""

    def work() -> None:
        for _ in range(count):
            launch()

    launch()
    for _ in range(8):
        threading.Thread(target=work).start()
    print("launched", 1 + 8 * count, flush=True)  # once they are through, which Python waits for


def task(number: int) -> int:
    launch()
    return os.getpid()


def victim(ready) -> None:
    launch()
    ready.set()
    time.sleep(300)


def pool(method: str, count: int) -> None:
    """Workers launch; a further process that has launched, too, is killed."""
    context = multiprocessing.get_context(method)
    with context.Pool(2) as workers:
        workers.map(task, range(count), chunksize=1)
    ready = context.Event()
    process = context.Process(target=victim, args=(ready,))
    process.start()
    ready.wait()
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    print("launched", count, flush=True)


if __name__ == "__main__":
    kind, *words = sys.argv[1:]
    {"steady": steady, "threads": threads, "pool": pool}[kind](
        *(int(w) if w.isdecimal() else w for w in words)
    )
