"""Cases of `truth.py` for `memory`: a stride of 17, a mask, a tile that is read again, bank conflicts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from triton.experimental.gluon import language as gl

from benchmarks._memory_kernels import BY_COLUMN, BY_ROW, again, every_other, strided, turned
from benchmarks._truth import CPU, Case, Pair, named


def _looked(target: str, launch: Callable[[], Any]) -> tuple[list[dict[str, Any]], list[Any]]:
    """The rows of the table, and the findings."""
    import tileprobe

    options = {"check": False} if target.startswith("sim") else {}
    with tileprobe.use(target, **options), tileprobe.profile(tools=["memory"]) as session:
        launch()
    (result,) = session.results()
    return result.tables[0].frame.to_dicts(), result.findings


def _array(count: int, kind: Any = np.float32) -> Any:
    """From the beginning of a cache line on."""
    import tileprobe

    size = np.dtype(kind).itemsize
    held = np.zeros(count * size + 64, np.uint8)
    first = -held.ctypes.data % 64
    return tileprobe.array(held[first : first + count * size].view(kind))


def _found(findings: list[Any], cause: str, line: int) -> bool:
    return any(f.data["cause"] == cause and f.data["line"] == line for f in findings)


def _stride(target: str, unit: int) -> Callable[[], list[Pair]]:
    def run() -> list[Pair]:
        x, out = _array(17 * 4096), _array(4096)
        rows, findings = _looked(target, lambda: strided[(32,)](x, out, STRIDE=17, BLOCK=128))
        load = rows[0]
        return [
            named("the line", _found(findings, "stride", load["line"])),
            Pair("bytes moved for each asked for", unit / 4, load["times"], ""),
            Pair("bytes from neighbour to neighbour", 68, load["stride"], ""),
        ]

    return run


def _masked(target: str) -> Callable[[], list[Pair]]:
    def run() -> list[Pair]:
        x, out = _array(4096), _array(4096)
        rows, findings = _looked(target, lambda: every_other[(32,)](x, out, BLOCK=128))
        return [
            named("the line", _found(findings, "masked off", rows[0]["line"])),
            Pair("masked off", 50, 100 * rows[0]["masked"], "%"),
        ]

    return run


def _again(target: str) -> Callable[[], list[Pair]]:
    def run() -> list[Pair]:
        x, out = _array(128), _array(4096)
        rows, _ = _looked(target, lambda: again[(32,)](x, out, 20, 0, BLOCK=128))
        return [
            Pair("times that a line is touched", 20, rows[0]["reuse"], ""),
            Pair("bytes of a program", 512, rows[0]["footprint"], ""),
        ]

    return run


def _banks() -> list[Pair]:
    """Eight lanes at a time load 16 bytes each, all from the same four banks."""
    x, out = _array(1024), _array(1024)
    options = {"SHARED": gl.SwizzledSharedLayout(1, 1, 1, [1, 0]), "IN": BY_ROW, "OUT": BY_COLUMN}
    rows, findings = _looked("sim:a100", lambda: turned[(1,)](x, out, **options, num_warps=1))
    load = next(row for row in rows if "LDS" in row["what"])
    return [
        named("the line", _found(findings, "bank conflicts", load["line"])),
        Pair("passes for each that is needed", 8, load["conflicts"], ""),
    ]


_LINE, _SECTOR = 64, 32
CASES = (
    Case("a load with stride 17", "memory", "cpu", _stride("cpu", _LINE), CPU),
    Case("a load with stride 17", "memory", "sim:a100", _stride("sim:a100", _SECTOR)),
    Case("a masked-off half", "memory", "cpu", _masked("cpu"), CPU),
    Case("a masked-off half", "memory", "sim:a100", _masked("sim:a100")),
    Case("a tile that is read again", "memory", "cpu", _again("cpu"), CPU),
    Case("a tile that is read again", "memory", "sim:a100", _again("sim:a100")),
    Case("columns of a tile in shared memory", "memory", "sim:a100", _banks),
)
