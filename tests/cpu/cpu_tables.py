"""Runs a table of elementwise expressions as one kernel and says which rows are wrong.

A row is the expression in Triton's language over x, y and z, the same in NumPy, the type of the result and
how many units in the last place it may be off. One kernel holds all rows of a type; when it fails to compile,
the rows are tried one by one so that the message names the culprits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cpu_harness import Buffer, kernel, launch, mismatch


@dataclass(frozen=True)
class Row:
    code: str
    want: Callable[..., Any]  # of the operands' values (float64 or integers)
    out: str | None = None  # type of the result, the operands' own when None
    ulps: float = 0
    where: Callable[..., Any] | None = None  # lanes on which the operation is defined


def _source(rows: list[Row], outs: list[str], operands: list[str]) -> str:
    kinds = sorted(set(outs))
    lines = ["@triton.jit", f"def kernel({', '.join(n.upper() for n in operands)}, "]
    lines[-1] += ", ".join(f"OUT_{k}" for k in kinds) + ", N: tl.constexpr):"
    lines.append("    i = tl.program_id(0) * N + tl.arange(0, N)")
    lines.append("    total = N * tl.num_programs(0)")
    lines += [f"    {n} = tl.load({n.upper()} + i)" for n in operands]
    seen = dict.fromkeys(kinds, 0)
    for row, out in zip(rows, outs):
        lines.append(f"    tl.store(OUT_{out} + {seen[out]} * total + i, {row.code})")
        seen[out] += 1
    return "\n".join(lines) + "\n"


def _run(rows: list[Row], dtype: str, operands: dict[str, Buffer], block: int) -> list[np.ndarray]:
    outs = [row.out or dtype for row in rows]
    size = next(iter(operands.values())).shape[0]
    buffers = {k: Buffer.full((outs.count(k), size), k) for k in sorted(set(outs))}
    fn = kernel(_source(rows, outs, list(operands)))
    launch(fn, size // block, *operands.values(), *buffers.values(), N=block)
    seen = dict.fromkeys(buffers, 0)
    results = []
    for out in outs:
        results.append(buffers[out].values[seen[out]])
        seen[out] += 1
    return results


def problems(rows: list[Row], dtype: str, operands: dict[str, np.ndarray], block: int = 128) -> list[str]:
    """One line for each row that fails."""
    buffers = {name: Buffer(values, dtype) for name, values in operands.items()}
    values = [b.values for b in buffers.values()]
    found = []
    try:
        results = _run(rows, dtype, buffers, block)
    except Exception as error:
        if len(rows) == 1:
            return [f"{rows[0].code}: {type(error).__name__}: {str(error).strip()[:300]}"]
        return [line for row in rows for line in problems([row], dtype, operands, block)] or [
            f"the rows together fail, each alone works: {error}"
        ]
    for row, got in zip(rows, results):
        with np.errstate(all="ignore"):
            want = np.broadcast_to(np.asarray(row.want(*values)), got.shape)
            lanes = row.where(*values) if row.where else np.ones(got.shape, bool)
        wrong = mismatch(got[lanes], want[lanes], row.out or dtype, row.ulps)
        if wrong:
            found.append(f"{row.code}: {wrong}")
    return found


def check_rows(rows: list[Row], dtype: str, operands: dict[str, np.ndarray], block: int = 128) -> None:
    found = problems(rows, dtype, operands, block)
    assert not found, f"{dtype}: {len(found)} of {len(rows)} expressions\n" + "\n".join(found)
