"""The CPU target against torch, against itself and against Triton's interpreter (`make bench`).

Two threads on either side, both sides in one run. Prints tables with the floor of each row, writes
results/cpu.json, and exits with 1 when a row misses its floor.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import triton
from examples.kernels import attention, layer_norm, matmul, softmax, vector_add

import tileprobe
from benchmarks._common import Row, alternate, compare, gbytes, gflops, in_process, save, show

THREADS = 2


@triton.jit
def empty_kernel():
    pass


def check(name: str, ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """A fast wrong answer is no answer."""
    error = ((ours.double() - theirs.double()).abs().max() / theirs.double().abs().max()).item()
    assert error < 2e-2 if ours.dtype in (torch.float16, torch.bfloat16) else error < 1e-4, (
        f"{name}: off by {error}"
    )


def matmul_call(
    m: int, n: int, k: int, tile: tuple[int, int, int], dtype: torch.dtype = torch.float32
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    whole = dtype == torch.int8
    a, b = (
        torch.randint(-128, 128, size, dtype=dtype) if whole else torch.randn(size).to(dtype)
        for size in ((m, k), (k, n))
    )
    c, d = (torch.empty(m, n, dtype=torch.int32 if whole else dtype) for _ in range(2))
    matmul.matmul(a, b, c, tile)
    check(f"matmul {m}x{n}x{k}", c, a.double() @ b.double())
    multiply = torch._int_mm if whole else torch.mm
    return lambda: matmul.matmul(a, b, c, tile), lambda: multiply(a, b, out=d)


def matmul_rows() -> list[Row]:
    rows = []
    for size, tile, floor in (
        ((1024, 1024, 1024), (128, 128, 32), 0.85),
        ((1000, 1050, 1100), (128, 128, 32), 0.7),
        ((1024, 1024, 1024), (64, 64, 32), 0.7),
    ):
        ours, theirs = matmul_call(*size, tile)
        name = f"f32 matmul {'x'.join(map(str, size))}, tiles {'x'.join(map(str, tile))}"
        rows.append(compare(name, ours, theirs, "torch", floor, gflops(2.0 * size[0] * size[1] * size[2])))
    single, _ = matmul_call(1024, 1024, 1024, (128, 128, 32))
    for dtype in (torch.float16, torch.bfloat16, torch.int8):
        half, theirs = matmul_call(1024, 1024, 1024, (128, 128, 64), dtype)
        name = f"{str(dtype)[6:]} matmul 1024^3"
        rows.append(compare(name, half, single, "our f32", 0.9, gflops(2.0 * 1024**3)))
        if dtype != torch.float16:  # torch's takes seconds, one number at a time
            rows.append(compare(name, half, theirs, "torch", 0.9, gflops(2.0 * 1024**3)))
    return rows


def memory_rows() -> list[Row]:
    n = 1 << 24
    x, y = torch.randn(n), torch.randn(n)
    out, want = torch.empty(n), torch.empty(n)
    vector_add.add(x, y, out, 16384)
    check("add", out, x + y)
    rows = [
        compare(
            "add 16M f32", lambda: vector_add.add(x, y, out, 16384), lambda: torch.add(x, y, out=want),
            "torch", 0.9, gbytes(12.0 * n),
        )
    ]  # fmt: skip
    rows.append(layer_norm_row())
    for cols in (4000, 1000):
        data = torch.randn(2048, cols)
        result, want = torch.empty_like(data), torch.empty_like(data)
        check("softmax", softmax.softmax(data, result), torch.softmax(data, 1))
        rows.append(
            compare(
                f"softmax 2048x{cols} f32",
                lambda data=data, result=result: softmax.softmax(data, result),
                lambda data=data, want=want: torch.softmax(data, 1, out=want),
                "torch", 1.1, gbytes(8.0 * data.numel()),
            )
        )  # fmt: skip
    return rows


def layer_norm_row() -> Row:
    x, y = torch.randn(2048, 4000), torch.empty(2048, 4000)
    w, b = torch.randn(2, 4000)
    mean, rstd = torch.empty(2, 2048)
    layer_norm.forward(x, w, b, y, mean, rstd)
    check("layer norm", y, torch.layer_norm(x, (4000,), w, b))
    return compare(
        "layer norm 2048x4000 f32", lambda: layer_norm.forward(x, w, b, y, mean, rstd),
        lambda: torch.layer_norm(x, (4000,), w, b), "torch", 0.9, gbytes(8.0 * x.numel()),
    )  # fmt: skip


def attention_rows() -> list[Row]:
    heads, length, dim = 8, 1024, 64
    q, k, v = (torch.randn(heads, length, dim) for _ in range(3))
    out, lse = torch.empty_like(q), torch.empty(heads, length)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    rows = []
    for causal, floor in ((False, 0.6), (True, None)):
        attention.forward(q, k, v, out, lse, causal, (128, 64))
        check("attention", out, sdpa(q, k, v, is_causal=causal))
        row = compare(
            f"attention 8x1024x64 f32{' causal' if causal else ''}",
            lambda causal=causal: attention.forward(q, k, v, out, lse, causal, (128, 64)),
            lambda causal=causal: sdpa(q[None], k[None], v[None], is_causal=causal),
            "torch sdpa", floor or 0.0, gflops(4.0 * heads * length * length * dim / (1 + causal)),
        )  # fmt: skip
        row.floor = floor
        rows.append(row)
    return rows


def interpreter_rows() -> list[Row]:
    ours = in_process("benchmarks._cpu_process", "kernels", "20", TRITON_DEFAULT_BACKEND="cpu")
    theirs = in_process("benchmarks._cpu_process", "kernels", "1", TRITON_INTERPRET="1")
    return [Row(name, ours[name], theirs[name], "interpreter", 200.0) for name in ours]


def launch_rows() -> list[Row]:
    (times,) = alternate([lambda: empty_kernel[(1,)]()], seconds=0.5, least=2000)
    times.sort()
    return [Row("launch an empty kernel, warm (median)", times[len(times) // 2], limit_s=30e-6)]


def compile_rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="tileprobe-bench-") as cache:
        settings = {"TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_BACKEND": "cpu"}
        cold = in_process("benchmarks._cpu_process", "compile", **settings)
        cached = min(in_process("benchmarks._cpu_process", "compile", **settings) for _ in range(3))
    return [
        Row("compile fused attention and run it, cold", cold[0], limit_s=2.0, rate=f"{cold[1]:.2f} s of CPU"),
        Row(
            "the same, new process, from the cache", cached[0], limit_s=0.2, rate=f"{cached[1]:.2f} s of CPU"
        ),
    ]


def scaling_rows() -> list[Row]:
    """Cost should follow the work: the rate stays where it is as problems and tiles grow."""
    rows = []
    cases = [(size, (128, 128, 32)) for size in (256, 512, 1024, 1536)]
    cases += [
        (1024, tile) for tile in ((32, 32, 32), (64, 64, 64), (128, 64, 32), (128, 256, 32), (256, 256, 64))
    ]
    for size, tile in cases:
        ours, _ = matmul_call(size, size, size, tile)
        (times,) = alternate([ours], seconds=0.6, least=3)
        name = f"matmul {size}^3, tiles {'x'.join(map(str, tile))}"
        rows.append(Row(name, min(times), rate=gflops(2.0 * size**3)(min(times))))
    for cols in (256, 1024, 4096, 16384):
        data = torch.randn((1 << 22) // cols, cols)
        result = torch.empty_like(data)
        (times,) = alternate([lambda d=data, r=result: softmax.softmax(d, r)], seconds=0.4, least=3)
        rows.append(
            Row(f"softmax of 4M values, rows of {cols}", min(times), rate=gbytes(8.0 * 2**22)(min(times)))
        )
    return rows


def memory_of_grids() -> list[dict[str, float]]:
    grids = (2, 200, 20_000)
    peaks = [
        in_process("benchmarks._cpu_process", "memory", str(g), TRITON_DEFAULT_BACKEND="cpu") for g in grids
    ]
    for grid, peak in zip(grids, peaks):
        print(f"peak memory of a process that launches {grid:>6} programs: {peak:.1f} MB")
    return [{"programs": g, "peak_mb": p} for g, p in zip(grids, peaks)]


PARTS: dict[str, Callable[[], list[Row]]] = {
    "matmul": matmul_rows,
    "memory-bound": memory_rows,
    "attention": attention_rows,
    "launch": launch_rows,
    "compile": compile_rows,
    "interpreter": interpreter_rows,
    "scaling": scaling_rows,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}, grids; all if none"
    )
    chosen = parser.parse_args().parts or [*PARTS, "grids"]
    tileprobe.use("cpu", threads=THREADS)
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    sections: dict[str, Any] = {}
    for name, part in PARTS.items():
        if name in chosen:
            sections[name] = part()
            show(f"cpu: {name} ({THREADS} threads)", sections[name])
    missed = [row.work for rows in sections.values() for row in rows if not row.ok]
    if "grids" in chosen:
        sections["grids"] = memory_of_grids()
    print(f"results: {save('cpu', sections)}")
    if missed:
        print("below the floor: " + "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
