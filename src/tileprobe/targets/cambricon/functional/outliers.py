"""Plants outliers into a model without changing what it computes.

In: a checkpoint. Out: the same function with a few input channels whose weights are `size` times larger,
while whatever feeds them is as many times smaller. Large models grow such channels in training; small ones
do not. Floating-point results stay the same up to rounding; what changes is what integers and bit errors do
to them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tileprobe.targets.cambricon.functional.checkpoint import Checkpoint, Matrix
from tileprobe.targets.cambricon.functional.family import Spec


def plant_outliers(checkpoint: Checkpoint, size: float, share: float = 0.01, seed: int = 0) -> Checkpoint:
    """Scales `share` (at least one) of the input channels of every matrix."""
    rng = np.random.default_rng(seed)
    out = replace(checkpoint, norms=dict(checkpoint.norms), matrices=dict(checkpoint.matrices))
    for group, (weight, bias) in checkpoint.norms.items():
        factor = _factors(weight.size, size, share, rng)
        out.norms[group] = weight / factor, None if bias is None else bias / factor
        for matrix in checkpoint.matrices.values():
            if matrix.group == group:
                _scale(out, matrix.name, columns=factor)
    for layer in range(checkpoint.spec.layers):
        # the gate of a gated FFN is not linear, its other factor is; ReLU passes positive factors too
        model = checkpoint.spec.model
        experts = [f".{n}" for n in range(model.experts)] if model.is_mixture(layer) else [""]
        for one in experts if model.gated or model.activation == "relu" else []:
            factor = _factors(model.expert_ffn if model.is_mixture(layer) else model.ffn, size, share, rng)
            _scale(out, f"{layer}.up{one}", rows=1.0 / factor)
            _scale(out, f"{layer}.down{one}", columns=factor)
        values = _factors(checkpoint.spec.kv_heads * checkpoint.spec.head_size, size, share, rng)
        _scale(out, f"{layer}.v", rows=1.0 / values)
        _scale(out, f"{layer}.o", columns=_per_head(values, checkpoint.spec))
    return out


def _factors(count: int, size: float, share: float, rng: np.random.Generator) -> np.ndarray:
    factor = np.ones(count, np.float32)
    factor[rng.choice(count, max(1, round(share * count)), replace=False)] = size
    return factor


def _per_head(values: np.ndarray, spec: Spec) -> np.ndarray:
    """A value channel feeds the same place of every query head that shares it."""
    grouped = values.reshape(spec.kv_heads, 1, spec.head_size)
    return np.repeat(grouped, spec.heads // spec.kv_heads, axis=1).reshape(-1)


def _scale(
    out: Checkpoint, name: str, rows: np.ndarray | None = None, columns: np.ndarray | None = None
) -> None:
    matrix: Matrix = out.matrices[name]
    load, bias = matrix.load, matrix.bias
    scale = rows[:, None] if rows is not None else columns
    if rows is not None and bias is not None:
        bias = bias * rows
    out.matrices[name] = replace(matrix, load=lambda: (load() * scale).astype(np.float32), bias=bias)
