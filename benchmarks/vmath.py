"""The CPU target's math functions and conversions: nanoseconds an element and largest error, against NumPy.

One thread, arrays that fit the second-level cache, both sides in turns. Errors are in ulps, against mpmath.
`--quick` takes few samples for the errors; with names of functions only those are shown and nothing is saved.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks._common import ROOT, alternate, save
from tileprobe.targets.cpu import vmath
from tileprobe.targets.cpu.vmath.harness import compile_map

sys.path.insert(0, str(ROOT / "tests" / "cpu" / "vmath"))
from vmath_cases import CASES, Case, draw, worst

COUNT = 1 << 15
KINDS = {"f32": (np.float32, 8), "f64": (np.float64, 4)}
STORAGE = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "uint16"}
CONVERSIONS = [
    ("f32", "f16"), ("f16", "f32"), ("f32", "bf16"), ("bf16", "f32"), ("f8E4M3FN", "f32"), ("f8E5M2", "f32"),
    ("f32", "f8E4M3FN"), ("f32", "f8E5M2"), ("f16", "bf16"), ("f64", "f32"), ("f64", "f16"),
    ("f32", "i8"), ("f32", "i32"), ("f32", "i64"), ("i8", "f32"), ("i32", "f32"), ("i64", "f32"),
]  # fmt: skip


def storage(dtype: str) -> np.dtype:
    if dtype.startswith("f8"):
        return np.dtype(np.uint8)
    return np.dtype(STORAGE.get(dtype) or f"int{dtype[1:]}")


def nanoseconds(
    run: Any, args: list[np.ndarray], result: np.ndarray, numpy: Any
) -> tuple[float, float | None]:
    """The best time of ours and of NumPy's, an element."""
    ours = partial(run.code, result.size, result.ctypes.data, *(a.ctypes.data for a in args))
    sides = [ours] if numpy is None else [ours, numpy]
    best = [min(t) / result.size * 1e9 for t in alternate(sides, seconds=0.05, least=10)]
    return best[0], best[1] if numpy else None


def measure_function(name: str, case: Case, dtype: str, quick: bool) -> dict[str, Any]:
    kind, lanes = KINDS[dtype]
    emit = lambda b, a: vmath.call(b, name, a, dtype)  # noqa: E731
    run = compile_map(emit, [kind] * case.arguments, kind, lanes)
    args = [np.resize(a, COUNT) for a in draw(_timed(case), kind, COUNT)]
    result = np.empty(COUNT, kind)
    numpy = partial(getattr(np, case.numpy), *args, out=result) if case.numpy else None
    with np.errstate(all="ignore"):
        ours, theirs = nanoseconds(run, args, result, numpy)
    row = {"work": name, "type": dtype, "ns": ours, "numpy_ns": theirs, "limit_ulp": getattr(case, dtype)}
    samples = draw(case, kind, 50 if quick else 1000, seed=1)
    row["max_ulp"] = worst(case, run(*samples), samples)[0]
    return row


def _timed(case: Case) -> Case:
    """The case with its first range alone: the ordinary arguments."""
    return Case(case.exact, case.ranges[:1], arguments=case.arguments, second=case.second)


def measure_conversion(source: str, target: str) -> dict[str, Any]:
    emit = lambda b, a: vmath.convert(b, a[0], source, target)  # noqa: E731
    run = compile_map(emit, [storage(source)], storage(target), 8)
    x = np.random.default_rng(0).uniform(0, 100, COUNT).astype(storage(source))
    result = np.empty(COUNT, storage(target))
    plain = source in STORAGE and target in STORAGE and "bf16" not in (source, target)
    numpy = partial(np.copyto, result, x, casting="unsafe") if plain or target[0] == "i" else None
    ours, theirs = nanoseconds(run, [x], result, numpy)
    return {"work": f"{source} to {target}", "type": "", "ns": ours, "numpy_ns": theirs}


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title=f"vector math, one thread, {COUNT} elements", title_justify="left")
    for column in ("function", "type", "ns", "NumPy ns", "ratio", "max ulp", "limit"):
        table.add_column(column, justify="left" if column in ("function", "type") else "right")
    for r in rows:
        theirs = r["numpy_ns"]
        ulp = r.get("max_ulp")
        table.add_row(
            r["work"],
            r["type"],
            f"{r['ns']:.2f}",
            f"{theirs:.2f}" if theirs else "",
            f"{theirs / r['ns']:.1f}x" if theirs else "",
            f"{ulp:.2f}" if ulp is not None else "",
            f"{r['limit_ulp']:g}" if ulp is not None else "",
        )
    Console(width=max(100, Console().width)).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("functions", nargs="*", help="only these functions")
    parser.add_argument("--quick", action="store_true", help="few samples for the errors")
    options = parser.parse_args()
    names = options.functions or list(CASES)
    rows = [measure_function(n, CASES[n], d, options.quick) for d in KINDS for n in names]
    if options.functions:
        show(rows)
        return
    rows += [measure_conversion(*pair) for pair in CONVERSIONS]
    show(rows)
    print(save("vmath", {"functions and conversions": rows}))


if __name__ == "__main__":
    main()
