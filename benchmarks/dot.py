"""Speed of the dot micro-kernels: a whole f32 matmul built from tiles, against torch, on one thread.

Each tile is packed from row-major sources and multiplied in scratch, as a compiled kernel does it, with and
without prefetching the next tile of K. Prints a table; `--json FILE` also writes the numbers.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir

from tileprobe.files import write_json
from tileprobe.targets.cpu.codegen import dot
from tileprobe.targets.cpu.codegen import dot_emit as e
from tileprobe.targets.cpu.host import host

LINE_BYTES = 64
F32 = ir.FloatType()


@dataclass(frozen=True)
class Tiling:
    """One way to cut the matmul: tile sizes, and where the tiles of the next step of K are prefetched."""

    size: int
    bm: int
    bn: int
    bk: int
    prefetch: str = "none"  # or "pack": in the packing loops; "dot": spread over the micro-kernel
    steps_ahead: int = 1

    @property
    def row_bytes(self) -> int:
        return self.size * 4


class Builder:
    """Builds `run(a, b, c, scratch)`: C = A @ B, all [size, size] row-major f32."""

    def __init__(self, tiling: Tiling, vector_bytes: int, registers: int) -> None:
        self.tiling = t = tiling
        self.lanes = vector_bytes // 4
        self.plan = dot.plan(t.bm, t.bn, t.bk, "f32", "f32", "f32", vector_bytes, registers)
        self.module = ir.Module("matmul")
        self.module.triple = host().triple
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [e.POINTER] * 4), "run")
        for argument in function.args:
            argument.add_attribute("noalias")
        self.ir = ir.IRBuilder(function.append_basic_block("entry"))
        self._emit(*function.args)
        self.ir.ret_void()

    def _emit(self, a: e.Value, b: e.Value, c: e.Value, scratch_a: e.Value) -> None:
        t, plan, row = self.tiling, self.plan, self.tiling.row_bytes
        scratch_b = e.at(self.ir, scratch_a, plan.a_elems * 4)
        scratch_c = e.at(self.ir, scratch_b, plan.b_elems * 4)
        bands = e.repeat(self.ir, t.size // t.bm, {a: t.bm * row, c: t.bm * row})
        with bands as (a_band, c_band):
            tiles = e.repeat(self.ir, t.size // t.bn, {b: t.bn * 4, c_band: t.bn * 4})
            with tiles as (b_band, c_tile):
                self._zero(scratch_c, plan.c_elems)
                steps = e.repeat(self.ir, t.size // t.bk, {a_band: t.bk * 4, b_band: t.bk * row})
                with steps as (a_tile, b_tile):
                    self._step(a_tile, b_tile, scratch_a, scratch_b, scratch_c)
                self._copy_tile(scratch_c, t.bn * 4, c_tile, row, t.bm, t.bn)

    def _step(self, a: e.Value, b: e.Value, scratch_a: e.Value, scratch_b: e.Value, c: e.Value) -> None:
        t, plan = self.tiling, self.plan
        next_a, next_b = t.steps_ahead * t.bk * 4, t.steps_ahead * t.bk * t.row_bytes
        in_pack = t.prefetch == "pack"
        self._copy_tile(a, t.row_bytes, scratch_a, t.bk * 4, t.bm, t.bk, ahead=next_a * in_pack)
        width = plan.b_layout.width
        panel = t.bk * width * 4
        self._copy_tile(
            b, t.row_bytes, scratch_b, width * 4, t.bk, t.bn, (width, panel), ahead=next_b * in_pack
        )
        ahead = []
        if t.prefetch == "dot":
            stride = ir.Constant(e.I64, t.row_bytes)
            ahead.append(dot.Ahead(e.at(self.ir, a, next_a), stride, t.bm, t.bk * 4))
            ahead.append(dot.Ahead(e.at(self.ir, b, next_b), stride, t.bk, t.bn * 4))
        dot.emit(self.ir, plan, scratch_a, scratch_b, c, ahead=ahead)

    def _zero(self, pointer: e.Value, count: int) -> None:
        zero = ir.Constant(ir.VectorType(F32, self.lanes), None)
        with e.repeat(self.ir, count // self.lanes, {pointer: self.lanes * 4}) as (now,):
            self.ir.store(zero, now, align=4)

    def _copy_tile(
        self,
        src: e.Value,
        src_row: int,
        dst: e.Value,
        dst_row: int,
        rows: int,
        cols: int,
        panels: tuple[int, int] | None = None,
        ahead: int = 0,
    ) -> None:
        """Copy [rows, cols]; `panels` = (columns of a panel, bytes from one panel to the next)."""
        width, step = panels or (cols, 0)
        with e.repeat(self.ir, rows, {src: src_row, dst: dst_row}) as (src_now, dst_now):
            for start in range(0, cols, self.lanes):
                if ahead and start * 4 % LINE_BYTES == 0:
                    dot.emit_prefetch(self.ir, e.at(self.ir, src_now, ahead + start * 4))
                value = e.load(self.ir, src_now, ir.VectorType(F32, self.lanes), start * 4, 4)
                place = start // width * step + start % width * 4
                self.ir.store(value, e.at(self.ir, dst_now, place), align=4)


class Matmul:
    """A compiled tiling."""

    def __init__(self, tiling: Tiling, vector_bytes: int, registers: int) -> None:
        built = Builder(tiling, vector_bytes, registers)
        parsed = llvm.parse_assembly(str(built.module))
        self._engine = llvm.create_mcjit_compiler(parsed, host().target_machine())
        self._engine.finalize_object()
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(self._engine.get_function_address("run"))
        plan = built.plan
        self._scratch = aligned(plan.a_elems + plan.b_elems + plan.c_elems)

    def __call__(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        self._run(a.ctypes.data, b.ctypes.data, c.ctypes.data, self._scratch.ctypes.data)


def aligned(count: int) -> np.ndarray:
    raw = np.zeros(count * 4 + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * 4].view(np.float32)


def measure(tilings: list[Tiling], rounds: int, vector_bytes: int, registers: int) -> list[dict[str, Any]]:
    """GFLOP/s of every tiling and of torch, all in turn in each round, best and median."""
    size = tilings[0].size
    random = np.random.default_rng(0)
    a, b, c = (aligned(size * size).reshape(size, size) for _ in range(3))
    a[:], b[:] = random.standard_normal(a.shape), random.standard_normal(b.shape)
    wanted = a @ b
    calls: dict[Tiling | None, Callable[[], object]] = {}
    torch_call = _torch_matmul(a, b)
    if torch_call is not None:
        calls[None] = torch_call
    for tiling in tilings:
        matmul = Matmul(tiling, vector_bytes, registers)
        matmul(a, b, c)
        np.testing.assert_allclose(c, wanted, rtol=1e-3, atol=1e-2)
        calls[tiling] = lambda matmul=matmul: matmul(a, b, c)
    seconds: dict[Tiling | None, list[float]] = {key: [] for key in calls}
    for _ in range(rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[key].append(time.perf_counter() - start)
    return [_row(key, size, seconds[key], seconds.get(None)) for key in calls]


def _torch_matmul(a: np.ndarray, b: np.ndarray) -> Callable[[], object] | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out)


def _row(tiling: Tiling | None, size: int, times: list[float], torch_times: list[float] | None) -> dict:
    row: dict[str, Any] = asdict(tiling) if tiling else {"size": size, "what": "torch"}
    work = 2 * size**3 / 1e9
    row["gflops_best"] = work / min(times)
    row["gflops_median"] = work / statistics.median(times)
    if torch_times is not None:
        row["of_torch_best"] = min(torch_times) / min(times)
        row["of_torch_median"] = statistics.median(torch_times) / statistics.median(times)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'f32 matmul, one thread':36} {'best':>7} {'median':>7}   of torch (best, median)"]
    for row in rows:
        name = row.get("what") or f"{row['size']}^3 in {row['bm']}x{row['bn']}x{row['bk']}, {_ahead(row)}"
        of_torch = [f"{row[key]:.2f}" for key in ("of_torch_best", "of_torch_median") if key in row]
        lines.append(
            f"{name:36} {row['gflops_best']:7.1f} {row['gflops_median']:7.1f}   {'  '.join(of_torch)}"
        )
    return "\n".join(lines)


def _ahead(row: dict[str, Any]) -> str:
    return "no prefetch" if row["prefetch"] == "none" else f"{row['prefetch']} +{row['steps_ahead']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    args = parser.parse_args()
    ways = [("none", 1), ("pack", 1), ("pack", 2), ("dot", 1), ("dot", 2)]
    tiles = [(128, 128, 32), (64, 64, 32)]
    tilings = [Tiling(args.size, *tile, *way) for tile in tiles for way in ways]
    machine = host()
    many = machine.vector_bytes == 64 or machine.arch == "aarch64"
    rows = measure(tilings, args.rounds, machine.vector_bytes, 32 if many else 16)
    print(table(rows))
    if args.json:
        write_json(args.json, rows)


if __name__ == "__main__":
    main()
