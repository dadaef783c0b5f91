"""Measurements that need a process of their own: compiling, the interpreter, peak memory. Prints JSON.

`compile`: seconds to the first result of a fused-attention kernel. `kernels`: seconds of each small kernel,
on whatever runs Triton in this process. `memory PROGRAMS`: peak memory after a launch of that grid.
"""

from __future__ import annotations

import json
import resource
import sys
import time

import torch
import triton
import triton.language as tl
from examples.kernels import attention, layer_norm, matmul, softmax, vector_add

from benchmarks._common import once


def attention_call(heads: int, length: int, dim: int, block: tuple[int, int]):
    q, k, v = (torch.randn(heads, length, dim) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(heads, length)
    return lambda: attention.forward(q, k, v, out, lse, False, block)


def compile_seconds() -> tuple[float, float]:
    """From the first call to its end: by the clock, and of the process's CPU time."""
    call = attention_call(1, 128, 64, (64, 64))
    start, start_cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - start_cpu


def small_kernels() -> dict:
    """The same kernels at sizes the interpreter can finish."""
    x, y = torch.randn(2, 1 << 18)
    m = torch.randn(256, 256)
    rows = torch.randn(128, 1000)
    w, b = torch.randn(2, 1000)
    mean, rstd = torch.empty(2, 128)
    out, c, r = torch.empty_like(x), torch.empty_like(m), torch.empty_like(rows)
    return {
        "add 256K": lambda: vector_add.add(x, y, out),
        "matmul 256^3": lambda: matmul.matmul(m, m, c, (64, 64, 32)),
        "softmax 128x1000": lambda: softmax.softmax(rows, r),
        "layer norm 128x1000": lambda: layer_norm.forward(rows, w, b, r, mean, rstd),
        "attention 1x256x64": attention_call(1, 256, 64, (64, 64)),
    }


@triton.jit
def tile_kernel(X, OUT, rounds, N: tl.constexpr):
    i = tl.arange(0, N)
    where = i[:, None] * N + i[None, :]
    x = tl.load(X + where)
    y = tl.dot(x, x, input_precision="ieee")
    z = tl.exp(y - tl.max(y, axis=1)[:, None])
    tl.store(OUT + (tl.program_id(0) % 2) * N * N + where, tl.dot(z, x, input_precision="ieee"))


def peak_megabytes(programs: int) -> float:
    x, out = torch.randn(64, 64), torch.empty(2, 64, 64)
    tile_kernel[(programs,)](x, out, 1, N=64)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(task: str, *arguments: str) -> None:
    torch.set_num_threads(2)
    if task == "compile":
        result = compile_seconds()
    elif task == "kernels":
        result = {}
        for name, run in small_kernels().items():
            run()
            result[name] = min(once(run) for _ in range(int(arguments[0])))
    else:
        result = peak_megabytes(int(arguments[0]))
    print(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
