"""The experiment: how well a model still predicts, against the bit error rate, under every page code.

In: a folder, a machine, codes, rates, seeds. Out: one row a run (perplexity, accuracy, every count of the
decoder), and a summary with means and spreads. Rates and seeds are the same for all codes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.functional.checkpoint import load_checkpoint
from tileprobe.targets.cambricon.functional.inject import check_rate
from tileprobe.targets.cambricon.functional.model import (
    FlashModel,
    calibration_tokens,
    float_linear,
    quantise,
)
from tileprobe.targets.cambricon.functional.outliers import plant_outliers
from tileprobe.targets.cambricon.functional.perplexity import score
from tileprobe.targets.cambricon.functional.quantise import SMOOTHING, scheme_of
from tileprobe.targets.cambricon.functional.tokenizer import load_tokenizer
from tileprobe.targets.cambricon.functional.transformer import Transformer
from tileprobe.targets.cambricon.machine import Machine

RATES = (1e-5, 4e-5, 1e-4, 2e-4, 4e-4, 1e-3, 2e-3, 4e-3, 1e-2)  # the paper's five, and further
CODES = ("none", "paper", "paper:signed", "hamming", "bch")


@dataclass
class Plan:
    folder: Path
    machine: Machine
    text: str
    weights: str = "w8a8"
    codes: tuple[str, ...] = CODES
    rates: tuple[float, ...] = RATES
    seeds: int = 5
    tokens: int = 1024
    tiling: str = "paper"
    tile: str = ""
    outliers: float | None = (
        None  # plant outliers this many times as large; smoothing, which would undo them, is off
    )

    def __post_init__(self) -> None:
        for rate in self.rates:
            check_rate(rate)
        for name, number in (("seeds", self.seeds), ("tokens", self.tokens)):
            if number < 1:
                raise TileProbeError(f"{name} = {number}: expected at least 1")

    @property
    def runs(self) -> int:
        return len(self.codes) * (1 + len(self.rates) * self.seeds)


Row = dict[str, Any]


def run(plan: Plan, progress: Callable[[str], None] = lambda _: None) -> list[Row]:
    """All runs; the first row is the model in floating point, without flash."""
    checkpoint = load_checkpoint(plan.folder)
    if plan.outliers is not None:
        checkpoint = plant_outliers(checkpoint, plan.outliers)
    tokenizer = load_tokenizer(plan.folder, checkpoint.spec.vocab)
    tokens = tokenizer.encode(plan.text)
    exact = score(Transformer.of(checkpoint, float_linear(checkpoint)), tokens, plan.tokens)
    smoothing = SMOOTHING if plan.outliers is None else None
    calibration = calibration_tokens(checkpoint, tokenizer)
    quantised = quantise(checkpoint, scheme_of(plan.weights), calibration, smoothing)
    rows: list[Row] = [{"ecc": "float32", "rate": 0.0, "seed": 0, **_scores(exact)}]
    for code in plan.codes:
        options = Options(weights=plan.weights, tiling=plan.tiling, tile=plan.tile)
        model = FlashModel(checkpoint, quantised, plan.machine, code, options)
        for row in _runs_of(plan, model, tokens):
            rows.append({"ecc": code, **row, **_spare(model)})
            progress(code)
    return rows


def _runs_of(plan: Plan, model: FlashModel, tokens: list[int]) -> Iterator[Row]:
    clean = model.flash.snapshot()
    points = [(0.0, 0), *((rate, seed) for rate in plan.rates for seed in range(plan.seeds))]
    for rate, seed in points:
        model.flash.restore(clean)
        flips = model.inject(rate, seed)
        outcome = model.flash.audit(model.quantised.values, flips).as_dict()
        decoder = outcome.pop("decoder")
        counts = {**outcome, **{k: v for k, v in decoder.items() if k not in ("pages", "zeroed")}}
        yield {"rate": rate, "seed": seed, **_scores(model.score(tokens, plan.tokens)), **counts}


def _scores(found) -> Row:
    return {
        "perplexity": found.perplexity,
        "loss": found.loss,
        "accuracy": found.accuracy,
        "tokens": found.tokens,
    }


def _spare(model: FlashModel) -> Row:
    codec = model.flash.codec
    used = codec.spare_bits_used
    return {"spare_bytes_used": -(-used // 8), "spare_share": used / (8 * codec.page_bytes)}


def summary(rows: list[Row]) -> list[Row]:
    """Mean and range over the seeds: the loss is averaged, so perplexity is the geometric mean."""
    out = []
    for key in dict.fromkeys((r["ecc"], r["rate"]) for r in rows):
        group = [r for r in rows if (r["ecc"], r["rate"]) == key]
        losses, right = [r["loss"] for r in group], [r["accuracy"] for r in group]
        out.append(
            {
                "ecc": key[0],
                "rate": key[1],
                "seeds": len(group),
                "perplexity": math.exp(statistics.fmean(losses)),
                "perplexity_low": math.exp(min(losses)),
                "perplexity_high": math.exp(max(losses)),
                "accuracy": statistics.fmean(right),
                "accuracy_spread": statistics.stdev(right) if len(group) > 1 else 0.0,
                "spare_bytes_used": group[0].get("spare_bytes_used", 0),
            }
        )
    return out
