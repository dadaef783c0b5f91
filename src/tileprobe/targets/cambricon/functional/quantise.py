"""Weights and activations as small integers: W8A8 and W4A16, one scale an output channel, smoothed inputs.

Weights are symmetric per output channel; activations are symmetric with one scale a token, found as it
arrives. SmoothQuant moves the outliers of activations into weights: input channel j is divided by s_j =
max|X_j|^a / max|W_j|^(1-a), which folds into the norm before it. "A16" is 16-bit fixed point, so that sums
are exact in any order; floating-point partial sums would depend on the tiling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError

SMOOTHING = 0.5  # SmoothQuant's own choice for OPT and Llama


@dataclass(frozen=True)
class Scheme:
    name: str
    weight_bits: int
    activation_bits: int

    @property
    def weight_limit(self) -> int:
        return 2 ** (self.weight_bits - 1) - 1

    @property
    def activation_limit(self) -> int:
        return 2 ** (self.activation_bits - 1) - 1


SCHEMES = {"w8a8": Scheme("w8a8", 8, 8), "w4a16": Scheme("w4a16", 4, 16)}


def scheme_of(name: str) -> Scheme:
    if name not in SCHEMES:
        raise TileProbeError(f"weights {name!r}: expected one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


def quantise_weight(weight: np.ndarray, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
    """(int8 values, float32 scale of each row). A row of zeros has scale 1."""
    peak = np.abs(weight).max(axis=1)
    scale = np.where(peak > 0, peak / scheme.weight_limit, 1.0).astype(np.float32)
    values = np.rint(weight / scale[:, None])
    return np.clip(values, -scheme.weight_limit, scheme.weight_limit).astype(np.int8), scale


def quantise_activation(x: np.ndarray, scheme: Scheme) -> tuple[np.ndarray, np.ndarray]:
    """(int16 values, float32 scale) of each row of `x`, which is one token's vector."""
    peak = np.abs(x).max(axis=1)
    scale = np.where(peak > 0, peak / scheme.activation_limit, 1.0).astype(np.float32)
    return np.rint(x / scale[:, None]).astype(np.int16), scale


def smoothing_factors(peaks_x: np.ndarray, peaks_w: np.ndarray, strength: float = SMOOTHING) -> np.ndarray:
    """What to divide each input channel by; 1 where a channel is never used."""
    if not 0.0 <= strength <= 1.0:
        raise TileProbeError(f"a smoothing strength of {strength}: expected a number from 0 to 1")
    used = (peaks_x > 0) & (peaks_w > 0)
    factors = np.where(used, peaks_x, 1.0) ** strength / np.where(used, peaks_w, 1.0) ** (1.0 - strength)
    return np.where(used, factors, 1.0).astype(np.float32)
