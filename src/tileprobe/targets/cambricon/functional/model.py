"""A model laid out in the flash of a machine, ready to run.

In: a Hugging Face folder, a machine, the kind of weights and the page code. Out: a `FlashModel`: its weight
products read pages through error correction, everything else runs as on the NPU. Embeddings, norms, biases
and scales are small, live in the NPU's DRAM and get no errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.aging import parse_age, wear_of
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.functional.checkpoint import Checkpoint, load_checkpoint
from tileprobe.targets.cambricon.functional.ecc import make_codec
from tileprobe.targets.cambricon.functional.flash import Flash
from tileprobe.targets.cambricon.functional.inject import Flips
from tileprobe.targets.cambricon.functional.packages import PackagedFlash
from tileprobe.targets.cambricon.functional.perplexity import Score, score
from tileprobe.targets.cambricon.functional.placement import compiled_maps
from tileprobe.targets.cambricon.functional.quantise import (
    SMOOTHING,
    Scheme,
    quantise_activation,
    quantise_weight,
    scheme_of,
    smoothing_factors,
)
from tileprobe.targets.cambricon.functional.tokenizer import Tokenizer, load_tokenizer
from tileprobe.targets.cambricon.functional.transformer import Cache, Norms, Transformer
from tileprobe.targets.cambricon.machine import Machine, load_machine
from tileprobe.targets.cambricon.precision import precision_of

# any plain English does: only the largest activation of each channel is taken from it
CALIBRATION_TEXT = (
    "It was a fine morning, and the whole family had gone out to walk in the garden before breakfast. "
    '"I am very glad that you are come," said she; "we have been expecting you these three days, and my '
    'father began to be quite uneasy." He smiled, and replied that the roads had been bad, and the horses '
    "worse."
)
CALIBRATION_TOKENS = 128


@dataclass
class Quantised:
    """Integer matrices with their scales, and the norms that the smoothing was folded into."""

    scheme: Scheme
    values: dict[str, np.ndarray]
    scales: dict[str, np.ndarray]
    norms: Norms


def float_linear(checkpoint: Checkpoint):
    """Weight products in float32, straight from the files: the reference and the source of calibration."""

    def linear(name: str, x: np.ndarray) -> np.ndarray:
        matrix = checkpoint.matrices[name]
        out = x @ matrix.load().T
        return out if matrix.bias is None else out + matrix.bias

    return linear


def activation_peaks(checkpoint: Checkpoint, tokens: list[int]) -> dict[str, np.ndarray]:
    """The largest magnitude of each input channel of each matrix while the model reads `tokens`."""
    peaks: dict[str, np.ndarray] = {}
    exact = float_linear(checkpoint)

    def watch(name: str, x: np.ndarray) -> np.ndarray:
        peaks[name] = np.abs(x).max(axis=0)
        return exact(name, x)

    Transformer.of(checkpoint, watch)(tokens, Cache(checkpoint.spec))
    return peaks


def quantise(
    checkpoint: Checkpoint, scheme: Scheme, calibration: list[int], smoothing: float | None = SMOOTHING
) -> Quantised:
    """Integer weights; with `smoothing`, inputs that come from a norm are smoothed as SmoothQuant does."""
    out = Quantised(scheme, {}, {}, dict(checkpoint.norms))
    factors: dict[str, np.ndarray] = {}
    if smoothing is not None:
        peaks = activation_peaks(checkpoint, calibration)
        for group in checkpoint.norms:
            members = [m for m in checkpoint.matrices.values() if m.group == group]
            weights = np.max([np.abs(m.load()).max(axis=0) for m in members], axis=0)
            factors[group] = smoothing_factors(peaks[members[0].name], weights, smoothing)
            weight, bias = checkpoint.norms[group]
            out.norms[group] = weight / factors[group], None if bias is None else bias / factors[group]
    for name, matrix in checkpoint.matrices.items():
        weight = matrix.load()
        if matrix.group in factors:
            weight = weight * factors[matrix.group]
        out.values[name], out.scales[name] = quantise_weight(weight, scheme)
    return out


class FlashModel:
    """A quantised model whose matrices lie in the flash of `machine`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        quantised: Quantised,
        machine: Machine,
        ecc: str = "paper",
        options: Options | None = None,
    ):
        self.spec, self.machine, self.quantised = checkpoint.spec, machine, quantised
        self.options = replace(options or Options(), weights=quantised.scheme.name)
        self._biases = {name: m.bias for name, m in checkpoint.matrices.items()}
        flash = machine.flash
        codec = make_codec(ecc, flash.page_bytes, flash.spare_bytes, quantised.scheme.weight_bits)
        packages = self.options.packages
        self.flash = PackagedFlash(machine, codec, packages) if packages > 1 else Flash(machine, codec)
        maps = compiled_maps(self.spec.model, machine, self.options)
        for name, values in quantised.values.items():
            self.flash.program(name, values, maps[name])
        self.transformer = Transformer.of(checkpoint, self.linear, quantised.norms)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        machine: Machine | str = "cambricon:s",
        weights: str = "w8a8",
        ecc: str = "paper",
        smoothing: float | None = SMOOTHING,
        options: Options | None = None,
    ) -> FlashModel:
        """Reads, calibrates, quantises and writes a folder into the flash of a machine."""
        checkpoint, tokenizer = load_checkpoint(Path(folder)), None
        if smoothing is not None:
            tokenizer = load_tokenizer(Path(folder), checkpoint.spec.vocab)
        quantised = quantise(
            checkpoint, scheme_of(weights), calibration_tokens(checkpoint, tokenizer), smoothing
        )
        machine = load_machine(machine) if isinstance(machine, str) else machine
        return cls(checkpoint, quantised, machine, ecc, options)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        """One product on the machine: quantise the input, multiply in flash and NPU, scale the sums."""
        inputs, scale = quantise_activation(x, self.quantised.scheme)
        return self._scaled(name, self.flash.multiply(name, inputs), scale)

    def reference_linear(self, name: str, x: np.ndarray) -> np.ndarray:
        """The same in plain NumPy on the matrix as it was quantised; what `linear` must equal, bit by bit."""
        inputs, scale = quantise_activation(x, self.quantised.scheme)
        sums = inputs.astype(np.int64) @ self.quantised.values[name].astype(np.int64).T
        return self._scaled(name, sums, scale)

    def _scaled(self, name: str, sums: np.ndarray, scale: np.ndarray) -> np.ndarray:
        # one order in memory, whoever made the sums: NumPy adds up along an axis in an order that depends on it
        out = sums.astype(np.float32, order="C") * scale[:, None] * self.quantised.scales[name]
        bias = self._biases[name]
        return out if bias is None else out + bias

    def inject(self, rate: float, seed: int) -> Flips:
        return self.flash.inject(rate, seed)

    def age(self) -> tuple[Flips, int]:
        """Bits flipped as the options' age says, and the retries of reading every page once."""
        return self.flash.age(wear_of(self.machine, parse_age(self.options.age)))

    @property
    def kv_bits(self) -> int:
        return 8 * precision_of(self.options.weights).kv_bytes

    def new_cache(self) -> Cache:
        return Cache(self.spec, self.kv_bits)

    def score(self, tokens: list[int], limit: int | None = None) -> Score:
        return score(self.transformer, tokens, limit, self.kv_bits)


def calibration_tokens(checkpoint: Checkpoint, tokenizer: Tokenizer | None) -> list[int]:
    if tokenizer is None:
        return []
    tokens = tokenizer.encode(CALIBRATION_TEXT)[: min(CALIBRATION_TOKENS, checkpoint.spec.positions)]
    if not tokens:
        raise TileProbeError(
            "the tokenizer makes no tokens of plain English text; it does not match the model"
        )
    return tokens
