"""What config.json says about a model's arithmetic, in one form for all families that are executed.

In: the folder. Out: a `Spec`: the shapes (the simulator's `Model`) and what only values need: positions,
epsilon, rotary angles, end tokens. A feature that would change the numbers silently is refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.model import Model, load_model

FAMILIES = ("opt", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3", "mixtral", "qwen3_moe")
ACTIVATIONS = ("silu", "gelu", "gelu_pytorch_tanh", "relu")
OPT_EPS = 1e-5  # torch's default, which OPT uses


@dataclass(frozen=True)
class Spec:
    model: Model
    positions: int
    eps: float
    rope_theta: float = 0.0  # 0: learned positions (OPT)
    rope_scaling: tuple[float, float, float, int] | None = None  # Llama 3: factor, low, high, original length
    rope_linear: float = 1.0
    rotary_size: int = 0  # values of a head that turn with their position (Phi 3: a part of them)
    embedding_scale: float = 1.0  # of what goes into the first layer (Gemma)
    norm_offset: float = 0.0  # that a norm's gain has beside what is stored (Gemma)
    score_size: float = 0.0  # by whose root scores are divided; 0: the head's size
    score_cap: float = 0.0  # that the magnitudes of scores, and of logits, approach (Gemma 2); 0: none
    logit_cap: float = 0.0
    stop_tokens: tuple[int, ...] = ()

    @property
    def hidden(self) -> int:
        return self.model.hidden

    @property
    def layers(self) -> int:
        return self.model.layers

    @property
    def heads(self) -> int:
        return self.model.heads

    @property
    def kv_heads(self) -> int:
        return self.model.kv_heads

    @property
    def head_size(self) -> int:
        return self.model.head_dim

    @property
    def vocab(self) -> int:
        return self.model.vocab

    @property
    def is_opt(self) -> bool:
        return self.model.family == "opt"


def read_spec(folder: Path) -> Spec:
    path = folder / "config.json"
    if not path.is_file():
        raise TileProbeError(f"{folder}: no config.json in it; give a Hugging Face folder")
    model = load_model(path)
    config = json.loads(path.read_text(encoding="utf-8"))
    if model.family not in FAMILIES:
        raise TileProbeError(
            f"{path}: model_type = {model.family!r} is simulated, but not executed; executed: {', '.join(FAMILIES)}"
        )
    if model.family == "qwen3_moe" and not config.get("norm_topk_prob", False):  # as Transformers takes it
        raise TileProbeError(f"{path}: `norm_topk_prob` is not true; weights of experts add up to one here")
    if model.activation not in ACTIVATIONS:
        raise TileProbeError(
            f"{path}: activation {model.activation!r} is not known here; known: {', '.join(ACTIVATIONS)}"
        )
    stops = _stop_tokens(path, config)
    if model.family == "opt":
        if not config.get("do_layer_norm_before", True):
            raise TileProbeError(f"{path}: an OPT with norms after its layers (opt-350m) is not supported")
        return Spec(model, int(_number(path, config, "max_position_embeddings")), OPT_EPS, stop_tokens=stops)
    share = config.get("partial_rotary_factor")
    turning = int(model.head_dim * (1.0 if share is None else _number(path, config, "partial_rotary_factor")))
    if turning % 2 or not 0 < turning <= model.head_dim:
        raise TileProbeError(
            f"{path}: rotary positions need an even head size, or an even part of it, found {turning} of "
            f"{model.head_dim}"
        )
    gemma = model.family in ("gemma", "gemma2")
    caps = {"score_cap": "attn_logit_softcapping", "logit_cap": "final_logit_softcapping"}
    more = {name: _cap(path, config, key) for name, key in caps.items()} if model.family == "gemma2" else {}
    if model.family == "gemma2":
        more["score_size"] = float(_number(path, config, "query_pre_attn_scalar"))
    rope = config.get("rope_parameters")  # newer files keep all of it here
    config = {**config, **rope, "rope_scaling": rope} if isinstance(rope, dict) else config
    scaling, linear = _rope(path, config)
    return Spec(
        model,
        positions=_context(path, config, model.windows),
        eps=float(_number(path, config, "rms_norm_eps", 1e-6)),
        rope_theta=float(_number(path, config, "rope_theta", 10000.0)),
        rope_scaling=scaling,
        rope_linear=linear,
        rotary_size=turning,
        embedding_scale=math.sqrt(model.hidden) if gemma else 1.0,
        norm_offset=1.0 if gemma else 0.0,
        **more,
        stop_tokens=stops,
    )


def _number(path: Path, config: dict[str, Any], key: str, default: float | None = None) -> float:
    value = config.get(key)
    value = default if value is None else value
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if value is None or not number or not math.isfinite(value) or value <= 0:
        found = "is missing" if value is None else f"is {value!r}"
        raise TileProbeError(f"{path}: `{key}` {found}; expected a positive number")
    return value


def _cap(path: Path, config: dict[str, Any], key: str) -> float:
    """Null is no cap; a cap that is not named is one that Transformers would choose."""
    if key not in config:
        raise TileProbeError(f"{path}: the field `{key}` is missing, which gemma2 models need (null: none)")
    return 0.0 if config[key] is None else float(_number(path, config, key))


def _context(path: Path, config: dict[str, Any], windows: tuple[int, ...]) -> int:
    """The longest context; where attention slides over a window, only as far as the shortest one reaches."""
    longest = int(_number(path, config, "max_position_embeddings", 2048))
    return min([longest, *(window for window in windows if window)])


def _rope(path: Path, config: dict[str, Any]) -> tuple[tuple[float, float, float, int] | None, float]:
    scaling = config.get("rope_scaling")
    if scaling is None:
        return None, 1.0
    if not isinstance(scaling, dict):
        raise TileProbeError(f"{path}: `rope_scaling` is {scaling!r}; expected an object")
    kind = scaling.get("rope_type", scaling.get("type"))
    if kind == "default":
        return None, 1.0
    if kind == "linear":
        return None, float(_number(path, scaling, "factor"))
    if kind == "llama3":
        keys = ("factor", "low_freq_factor", "high_freq_factor")
        factor, low, high = (float(_number(path, scaling, k)) for k in keys)
        return (factor, low, high, int(_number(path, scaling, "original_max_position_embeddings"))), 1.0
    raise TileProbeError(f"{path}: rope_scaling of type {kind!r} is not known here; known: linear, llama3")


def _stop_tokens(path: Path, config: dict[str, Any]) -> tuple[int, ...]:
    found = config.get("eos_token_id")
    tokens = found if isinstance(found, list) else [] if found is None else [found]
    if not all(isinstance(token, int) for token in tokens):
        raise TileProbeError(
            f"{path}: `eos_token_id` is {found!r}; expected a token number or a list of them"
        )
    return tuple(tokens)
