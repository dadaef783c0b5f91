"""How well a model predicts a text: perplexity and the share of next tokens it guesses right.

In: a transformer and the tokens of a text it has not seen. Out: a `Score`. The text is cut into pieces of the
model's context; a model broken by bit errors may give numbers that are not finite, which count as hopeless.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.transformer import Cache, Transformer

WORST_LOSS = 50.0  # a probability of 2e-22; keeps one hopeless token from making the mean infinite


@dataclass(frozen=True)
class Score:
    loss: float  # mean negative log-likelihood of a token, in nats
    accuracy: float
    tokens: int

    @property
    def perplexity(self) -> float:
        return math.exp(self.loss)


def token_losses(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    logits = np.nan_to_num(logits.astype(np.float64), nan=0.0, posinf=1e30, neginf=-1e30)
    logits -= logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(targets)), targets]
    return np.minimum(losses, WORST_LOSS)


def score(
    transformer: Transformer, tokens: list[int], limit: int | None = None, kv_bits: int | None = None
) -> Score:
    """Reads `tokens` (at most `limit` of them are predicted) in pieces of the model's context."""
    if len(tokens) < 2:
        raise TileProbeError("a text of fewer than two tokens: nothing to predict")
    length = transformer.spec.positions
    count = len(tokens) - 1 if limit is None else min(limit, len(tokens) - 1)
    losses, right = [], 0
    for start in range(0, count, length):
        piece = np.asarray(tokens[start : min(start + length, count) + 1])
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            logits = transformer(piece[:-1], Cache(transformer.spec, kv_bits))
        losses.append(token_losses(logits, piece[1:]))
        right += int((logits.argmax(axis=1) == piece[1:]).sum())
    return Score(float(np.concatenate(losses).mean()), right / count, count)
