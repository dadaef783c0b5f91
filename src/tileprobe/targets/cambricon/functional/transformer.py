"""A decoder in NumPy for the families of family.py: everything but the weight products, which are handed in.

In: tokens and a `linear(name, x)` that multiplies by a stored matrix. Out: the logits of each token. This
is the NPU's part: norms, rotary positions, attention over the KV cache in DRAM, activations; in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.checkpoint import Checkpoint
from tileprobe.targets.cambricon.functional.family import Spec

Linear = Callable[[str, np.ndarray], np.ndarray]
Norms = dict[str, tuple[np.ndarray, "np.ndarray | None"]]


class Cache:
    """Keys and values of the tokens so far, [layer, position, head, size]; grows by doubling.

    With `bits`, they are integers of that width with one scale a head and token, as the machine's DRAM holds
    them; the arrays have the values that come back from there.
    """

    def __init__(self, spec: Spec, bits: int | None = None):
        self.length = 0
        self._limit = None if bits is None else np.float32(2 ** (bits - 1) - 1)
        shape = (spec.layers, 0, spec.kv_heads, spec.head_size)
        self._keys, self._values = np.zeros(shape, np.float32), np.zeros(shape, np.float32)

    def extend(self, layer: int, keys: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        end = self.length + len(keys)
        if end > self._keys.shape[1]:
            room = ((0, 0), (0, max(64, 2 * end) - self._keys.shape[1]), (0, 0), (0, 0))
            self._keys, self._values = np.pad(self._keys, room), np.pad(self._values, room)
        self._keys[layer, self.length : end] = self._kept(keys)
        self._values[layer, self.length : end] = self._kept(values)
        return self._keys[layer, :end], self._values[layer, :end]

    def _kept(self, x: np.ndarray) -> np.ndarray:
        if self._limit is None:
            return x
        peak = np.abs(x).max(axis=-1, keepdims=True)
        scale = np.where(peak > 0, peak / self._limit, np.float32(1.0))
        return np.rint(x / scale) * scale


def rope_frequencies(spec: Spec) -> np.ndarray:
    """The angle a position adds to each pair, with Llama 3's stretching of the slow ones."""
    size = spec.rotary_size
    inverse = spec.rope_theta ** (-np.arange(0, size, 2) / size) / spec.rope_linear
    if spec.rope_scaling is None:
        return inverse
    factor, low, high, original = spec.rope_scaling
    turns = original * inverse / (2 * np.pi)  # full turns within the original context
    blend = np.clip((turns - low) / (high - low), 0.0, 1.0)
    return inverse * (blend + (1.0 - blend) / factor)


def _rotate(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    size = cos.shape[-1]
    rest, x, half = x[..., size:], x[..., :size], size // 2
    turned = np.concatenate((-x[..., half:], x[..., :half]), axis=-1)
    turned = x * cos[:, None] + turned * sin[:, None]
    return np.concatenate((turned, rest), axis=-1) if rest.shape[-1] else turned


def _activate(x: np.ndarray, name: str) -> np.ndarray:
    if name == "relu":
        return np.maximum(x, 0.0)
    if name == "silu":
        return x / (1.0 + np.exp(-np.clip(x, -80.0, 80.0)))
    if name == "gelu_pytorch_tanh":
        return (
            0.5
            * x
            * (1.0 + np.tanh(np.float32(np.sqrt(2.0 / np.pi)) * (x + np.float32(0.044715) * x * x * x)))
        )
    return 0.5 * x * (1.0 + _erf(x / np.float32(np.sqrt(2.0))))


def _erf(x: np.ndarray) -> np.ndarray:
    """Abramowitz and Stegun 7.1.26, to 1.5e-7."""
    t = 1.0 / (1.0 + 0.3275911 * np.abs(x))
    poly = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1.0 - poly * np.exp(-x * x))


def capped(x: np.ndarray, cap: float) -> np.ndarray:
    """Magnitudes approach the cap; 0: there is none."""
    return np.float32(cap) * np.tanh(x / np.float32(cap)) if cap else x


def attend(
    q: np.ndarray, keys: np.ndarray, values: np.ndarray, score_size: float = 0.0, cap: float = 0.0
) -> np.ndarray:
    """Causal attention of the newest tokens, q [tokens, heads, size], over all; grouped heads share keys."""
    tokens, heads, size = q.shape
    length, groups = keys.shape[0], keys.shape[1]
    rows = q.reshape(tokens, groups, heads // groups, size).transpose(1, 2, 0, 3).reshape(groups, -1, size)
    scores = capped(rows @ keys.transpose(1, 2, 0) / np.float32(np.sqrt(score_size or size)), cap)
    if tokens > 1:
        hidden = np.arange(length)[None] > np.arange(length - tokens, length)[:, None]
        scores = np.where(np.tile(hidden, (heads // groups, 1))[None], np.float32(-np.inf), scores)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    out = (scores / scores.sum(axis=-1, keepdims=True)) @ values.transpose(1, 0, 2)
    return out.reshape(groups, heads // groups, tokens, size).transpose(2, 0, 1, 3).reshape(tokens, -1)


@dataclass
class Transformer:
    spec: Spec
    embedding: np.ndarray
    positions: np.ndarray | None
    norms: Norms
    linear: Linear
    head_norms: dict[str, np.ndarray] = field(default_factory=dict)
    post_norms: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint, linear: Linear, norms: Norms | None = None) -> Transformer:
        return cls(
            checkpoint.spec, checkpoint.embedding, checkpoint.positions, norms or checkpoint.norms, linear,
            checkpoint.head_norms, checkpoint.post_norms,
        )  # fmt: skip

    def __post_init__(self) -> None:
        self.routes: list[np.ndarray] = []  # experts of the tokens so far, layer by layer of each call
        self._angle = rope_frequencies(self.spec) if self.spec.rope_theta else None

    def __call__(self, tokens: list[int] | np.ndarray, cache: Cache, last_only: bool = False) -> np.ndarray:
        """Logits [tokens, vocab] (or of the last token alone) of tokens that follow those in the cache."""
        tokens = np.asarray(tokens, np.int64)
        self._check(tokens, cache)
        places = np.arange(cache.length, cache.length + len(tokens))
        x = self.embedding[tokens]
        if self.spec.embedding_scale != 1.0:
            x = x * np.float32(self.spec.embedding_scale)
        if self.positions is not None:
            x = x + self.positions[places]
        for layer in range(self.spec.layers):
            y = self._attention(layer, self.norm(f"{layer}.attention_norm", x), cache, places)
            x = x + self._behind(f"{layer}.attention", y)
            x = x + self._behind(f"{layer}.mlp", self._mlp(layer, self.norm(f"{layer}.mlp_norm", x)))
        cache.length += len(tokens)
        logits = self.linear("lm_head", self.norm("last_norm", x[-1:] if last_only else x))
        return capped(logits, self.spec.logit_cap)

    def _check(self, tokens: np.ndarray, cache: Cache) -> None:
        if tokens.size == 0:
            raise TileProbeError("no tokens: give a prompt with at least one character")
        if tokens.min() < 0 or tokens.max() >= self.spec.vocab:
            raise TileProbeError(
                f"token {int(tokens.max())} is outside the model's vocabulary of {self.spec.vocab}"
            )
        if cache.length + len(tokens) > self.spec.positions:
            raise TileProbeError(
                f"{cache.length + len(tokens)} tokens, but the model was made for {self.spec.positions} "
                "(max_position_embeddings): use a shorter text"
            )

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        weight, bias = self.norms[name]
        if self.spec.is_opt:
            x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(self.spec.eps)) * weight
        return x if bias is None else x + bias

    def _rms(self, gain: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(self.spec.eps)) * gain

    def _behind(self, name: str, x: np.ndarray) -> np.ndarray:
        return self._rms(self.post_norms[name], x) if self.post_norms else x

    def _attention(self, layer: int, x: np.ndarray, cache: Cache, places: np.ndarray) -> np.ndarray:
        size = self.spec.head_size
        q, k, v = (self.linear(f"{layer}.{name}", x).reshape(len(x), -1, size) for name in "qkv")
        if self.head_norms:
            q, k = (self._rms(self.head_norms[f"{layer}.{name}"], x) for name, x in (("q", q), ("k", k)))
        if self._angle is not None:
            angle = np.outer(places, self._angle)
            angle = np.concatenate((angle, angle), axis=1)
            cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
            q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        keys, values = cache.extend(layer, k, v)
        out = attend(q, keys, values, self.spec.score_size, self.spec.score_cap)
        return self.linear(f"{layer}.o", out)

    def _mlp(self, layer: int, x: np.ndarray) -> np.ndarray:
        if self.spec.model.is_mixture(layer):
            return self._experts(layer, x)
        up = self.linear(f"{layer}.up", x)
        if not self.spec.model.gated:
            return self.linear(f"{layer}.down", _activate(up, self.spec.model.activation))
        gate = _activate(self.linear(f"{layer}.gate", x), self.spec.model.activation)
        return self.linear(f"{layer}.down", gate * up)

    def _experts(self, layer: int, x: np.ndarray) -> np.ndarray:
        """Every token through the experts that score highest, weighted by the softmax of their scores."""
        scores = self.linear(f"{layer}.router", x)
        chosen = np.argsort(-scores, axis=-1, kind="stable")[:, : self.spec.model.experts_per_token]
        self.routes.append(chosen)
        best = np.take_along_axis(scores, chosen, axis=-1)
        weights = np.exp(best - best.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        out = np.zeros_like(x)
        for expert in np.unique(chosen):
            token, place = np.nonzero(chosen == expert)
            mine = x[token]
            gate = _activate(self.linear(f"{layer}.gate.{expert}", mine), self.spec.model.activation)
            act = gate * self.linear(f"{layer}.up.{expert}", mine)
            out[token] += weights[token, place, None] * self.linear(f"{layer}.down.{expert}", act)
        return out
