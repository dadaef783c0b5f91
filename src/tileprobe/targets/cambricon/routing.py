"""Which experts the tokens of a mixture meet, and which of them a cache in DRAM has.

In: a distribution (`uniform`, `zipf:S`: expert of rank r is chosen in proportion to r to the power of -S, with other
ranks in every layer) or a file of routes, [tokens][layers][experts] as JSON or .npy. Out: a `Routing`: what one typical
token of the sequence meets, layer by layer, and what was counted over all of them.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.model import Model

UNIFORM = "uniform"
STEEPEST = 100.0  # of a Zipf distribution: all tokens meet the same experts long before
DRAWN_TOKENS = 256  # of a distribution; the first half fills the cache and is not counted


@dataclass(frozen=True)
class Routing:
    """`routes` as `LayersOp.routes` takes them, for every layer (empty for those without experts)."""

    routes: list[list[int]]
    tokens: int  # counted
    hit_rate: float  # of the experts that tokens met, those that were in DRAM
    distinct: float  # experts of a layer that the counted tokens met, in the mean over layers
    cached: int  # experts of all layers that fit the cache

    def to_json(self) -> dict[str, float]:
        return {
            "tokens": self.tokens, "hit_rate": self.hit_rate, "distinct_per_layer": self.distinct,
            "cached_experts": self.cached,
        }  # fmt: skip


def route(model: Model, how: str, seed: int, cached: int, together: int = 1) -> Routing:
    """Run a least-recently-used cache of `cached` experts over the tokens, and take the token whose hits are nearest to
    the mean. `together` tokens of one step meet the union of their experts.
    """
    layers = [n for n in range(model.layers) if model.is_mixture(n)]
    chosen = (
        _from_file(Path(how), model, len(layers)) if _is_file(how) else _drawn(model, how, seed, len(layers))
    )
    steps = [chosen[n : n + together] for n in range(0, len(chosen) - together + 1, together)]
    if not steps:
        raise TileProbeError(
            f"--routing {how}: {len(chosen)} tokens are fewer than the {together} of one step"
        )
    counted = steps[len(steps) // 2 :] if len(steps) > 1 else steps
    cache: OrderedDict[tuple[int, int], None] = OrderedDict()
    found = []
    for step in steps:
        met = [list(dict.fromkeys(step[:, n].ravel().tolist())) for n in range(len(layers))]
        found.append(
            [[-1 - e if _touch(cache, (n, e), cached) else e for e in one] for n, one in enumerate(met)]
        )
    found = found[-len(counted) :]
    hits = np.array([sum(e < 0 for one in step for e in one) for step in found])
    total = np.array([sum(len(one) for one in step) for step in found])
    typical = found[int(np.abs(hits / total - hits.sum() / total.sum()).argmin())]
    seen = np.concatenate(counted)
    distinct = float(np.mean([len(np.unique(seen[:, n])) for n in range(len(layers))]))
    by_layer = dict(zip(layers, typical))
    return Routing(
        [by_layer.get(n, []) for n in range(model.layers)],
        len(seen),
        float(hits.sum() / total.sum()),
        distinct,
        cached,
    )


def _touch(cache: OrderedDict, key: tuple[int, int], room: int) -> bool:
    """Whether the cache has it; it has it then, if there is room for any."""
    if key in cache:
        cache.move_to_end(key)
        return True
    if room:
        cache[key] = None
        if len(cache) > room:
            cache.popitem(last=False)
    return False


def _is_file(how: str) -> bool:
    return how.endswith((".json", ".npy"))


def _drawn(model: Model, how: str, seed: int, layers: int) -> np.ndarray:
    """Experts of each token and layer, without repetition: a Gumbel for each, the largest of which are taken."""
    name, _, text = how.partition(":")
    try:
        slope = {UNIFORM: 0.0}[how] if name != "zipf" else float(text or 1.0)
    except (KeyError, ValueError):
        slope = math.nan
    if not 0.0 <= slope <= STEEPEST:
        raise TileProbeError(
            f"--routing {how!r}: expected uniform, zipf:S with S from 0 to {STEEPEST:g} (such as zipf:1.0), or a file "
            "of routes (.json, .npy)"
        )
    if seed < 0:
        raise TileProbeError(f"--seed must be zero or more, found {seed}")
    rng = np.random.default_rng(seed)
    ranks = np.stack([rng.permutation(model.experts) + 1.0 for _ in range(layers)])
    gumbel = rng.gumbel(size=(DRAWN_TOKENS, layers, model.experts)) - slope * np.log(ranks)
    return np.argsort(-gumbel, axis=-1)[..., : model.experts_per_token]


def _from_file(path: Path, model: Model, layers: int) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        else:
            found = np.array(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise TileProbeError(f"--routing {path}: cannot be read: {error}") from None
    expected = f"whole numbers [tokens, {layers} layers with experts, {model.experts_per_token} experts]"
    if (
        found.ndim != 3
        or found.shape[1:] != (layers, model.experts_per_token)
        or found.dtype.kind not in "iu"
    ):
        raise TileProbeError(
            f"--routing {path}: expected {expected}, found {found.dtype} {list(found.shape)}"
        )
    if not len(found) or found.min() < 0 or found.max() >= model.experts:
        raise TileProbeError(
            f"--routing {path}: experts are 0 to {model.experts - 1}, and there is at least one token"
        )
    return found


def expert_bytes(model: Model, weight_bits: int) -> int:
    """Of one expert of one layer."""
    return sum(m.weights for m in model.expert_in + model.expert_out) * weight_bits // 8
