"""A layer with planted outliers: the case that the paper's code is made for, which a small model may lack.

In: a machine and how many and how large outliers are. Out: rows of relative output error against bit error
rate for every code, for the same matrix with and without outliers, on full pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprobe.targets.cambricon.functional.ecc import make_codec
from tileprobe.targets.cambricon.functional.flash import Flash
from tileprobe.targets.cambricon.functional.placement import place
from tileprobe.targets.cambricon.functional.quantise import SCHEMES, quantise_activation, quantise_weight
from tileprobe.targets.cambricon.machine import Machine


@dataclass(frozen=True)
class Layer:
    """Gaussian weights; `outlier_share` of them are up to `outlier_size` standard deviations large."""

    rows: int = 512
    cols: int = 2048
    outlier_share: float = 0.0
    outlier_size: float = 0.0
    tokens: int = 4

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows, self.cols

    def make(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        weight = rng.standard_normal((self.rows, self.cols)).astype(np.float32)
        if self.outlier_share:
            chosen = rng.random(weight.shape) < self.outlier_share
            weight[chosen] = (
                np.sign(weight[chosen]) * self.outlier_size * rng.uniform(0.5, 1.0, int(chosen.sum()))
            )
        return weight, rng.standard_normal((self.tokens, self.cols)).astype(np.float32)


PLAIN = Layer()
OUTLIERS = Layer(outlier_share=0.005, outlier_size=20.0)  # half of what the code can protect


def run_layer(
    machine: Machine, layer: Layer, codes: tuple[str, ...], rates: tuple[float, ...], seeds: int
) -> list[dict[str, Any]]:
    """Relative error of the outputs, |y' - y| / |y|, of the quantised layer with errors against without."""
    weight, x = layer.make(seed=1)
    values, scale = quantise_weight(weight, SCHEMES["w8a8"])
    inputs, _ = quantise_activation(x, SCHEMES["w8a8"])
    exact = (inputs.astype(np.int64) @ values.astype(np.int64).T) * scale
    page = machine.flash.page_bytes
    width = 1 << (page.bit_length() // 2)  # square blocks that fill a page
    rows = []
    for code in codes:
        flash = Flash(machine, make_codec(code, page, machine.flash.spare_bytes))
        flash.program("layer", values, place(machine, [layer.shape], (page // width, width))[0])
        clean = flash.snapshot()
        for rate in rates:
            for seed in range(seeds):
                flash.restore(clean)
                flips = flash.inject(rate, seed)
                outcome = flash.audit({"layer": values}, flips).as_dict()
                outcome.pop("decoder")
                found = flash.multiply("layer", inputs) * scale
                error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
                rows.append({"ecc": code, "rate": rate, "seed": seed, "error": error, **outcome})
    return rows
