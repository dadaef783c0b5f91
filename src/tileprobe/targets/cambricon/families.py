"""How families of models spell their shapes: the fields of a Hugging Face configuration in, a `Model` out.

What a family has that is not modelled is refused by the name of its field, so that nothing is left out silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.model import _LLAMA, _OPT, Latent, Model

DENSE = ("opt", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3")
MIXTURES = ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3")
FAMILIES = DENSE + MIXTURES


def from_config(config: dict[str, Any], where: str = "config.json", name: str = "") -> Model:
    """A `Model` from the fields of a Hugging Face configuration."""
    family = config.get("model_type")
    if family not in FAMILIES:
        raise TileProbeError(
            f"{where}: unknown family model_type = {family!r}; expected one of {', '.join(FAMILIES)}"
        )
    read = _Reader(config, where, family)
    hidden, heads = read.size("hidden_size"), read.size("num_attention_heads")
    own = (
        config.get("v_head_dim") if str(family).startswith("deepseek") else None
    )  # unused, heads have three sizes
    head_dim = own or read.size("head_dim", default=hidden // heads if hidden % heads == 0 else None)
    common = {
        "name": name or str(config.get("_name_or_path") or where),
        "hidden": hidden,
        "layers": read.size("num_hidden_layers"),
        "heads": heads,
        "head_dim": head_dim,
        "vocab": read.size("vocab_size"),
    }
    if family == "opt":
        if read.size("word_embed_proj_dim", default=hidden) != hidden:
            raise TileProbeError(
                f"{where}: OPT with word_embed_proj_dim other than hidden_size is not supported"
            )
        bias = read.flag("enable_bias", True)
        kind = {**_OPT, "qkv_bias": bias, "out_bias": bias, "mlp_bias": bias}
        kind.update(
            kv_heads=heads,
            ffn=read.size("ffn_dim"),
            activation=str(config.get("activation_function", "relu")),
            tied_embeddings=read.flag("tie_word_embeddings", True),
        )
        return Model(**common, **kind)
    kv_heads = read.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        raise TileProbeError(
            f"{where}: num_attention_heads ({heads}) must be a multiple of num_key_value_heads ({kv_heads})"
        )
    bias = read.flag("attention_bias", False)
    kind = {
        **_LLAMA,
        "family": family,
        "qkv_bias": bias or family in ("qwen2", "qwen2_moe"),
        "out_bias": bias,
        "mlp_bias": read.flag("mlp_bias", False),
    }
    gemma = family in ("gemma", "gemma2")
    kind.update(
        kv_heads=kv_heads,
        ffn=read.size("intermediate_size"),
        activation=str(
            config.get("hidden_activation") or config.get("hidden_act", "gelu" if gemma else "silu")
        ),
        tied_embeddings=read.flag("tie_word_embeddings", gemma),
        qk_norm=family.startswith("qwen3"),
        post_norms=family == "gemma2",
    )
    kind["windows"] = _windows(read, common["layers"])
    if family.startswith("deepseek"):
        kind.update(_deepseek(read, common["layers"]))
    elif family in MIXTURES:
        kind.update(_experts(read, common["layers"]))
    return Model(**common, **kind)


def _windows(read: _Reader, layers: int) -> tuple[int, ...]:
    """How far each layer sees: families slide over a window in all layers, in every second, or in the last ones."""
    config, family = read.config, read.family
    if config.get("sliding_window") is None or config.get("use_sliding_window", family != "qwen2") is False:
        return ()
    if family not in ("mistral", "mixtral", "gemma2", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"):
        return ()
    window, kinds = read.size("sliding_window"), config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) == layers:
        return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    if family == "gemma2":
        return tuple(0 if n % 2 else window for n in range(layers))
    if family.startswith("qwen"):
        first = read.size("max_window_layers", layers)
        return tuple(window if n >= first else 0 for n in range(layers))
    return (window,) * layers


def _deepseek(read: _Reader, layers: int) -> dict[str, Any]:
    """Latent attention, routed experts with shared ones, and dense layers first."""
    names = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    rank = 0 if read.config.get("q_lora_rank") is None else read.size("q_lora_rank")
    sizes = [read.size(name) for name in names]
    found: dict[str, Any] = {"latent": Latent(*[*sizes, rank]), "kv_heads": 1}
    ffn, active = read.size("moe_intermediate_size"), read.size("num_experts_per_tok")
    dense = range(min(layers, int(read.config.get("first_k_dense_replace") or 0)))
    shared = int(read.config.get("n_shared_experts") or 0) * ffn
    return {
        **found, "experts": read.size("n_routed_experts"), "experts_per_token": active, "expert_ffn": ffn,
        "shared_ffn": shared, "dense_layers": tuple(dense),
    }  # fmt: skip


def _experts(read: _Reader, layers: int) -> dict[str, Any]:
    """The mixture of a family: Mixtral's experts are as wide as its FFN, Qwen's have a width of their own."""
    if read.family == "mixtral":
        experts, ffn, shared, dense = read.size("num_local_experts"), read.size("intermediate_size"), 0, ()
    else:
        experts, ffn = read.size("num_experts"), read.size("moe_intermediate_size")
        shared = read.size("shared_expert_intermediate_size") if read.family == "qwen2_moe" else 0
        every, plain = read.size("decoder_sparse_step", 1), read.config.get("mlp_only_layers") or []
        if not isinstance(plain, list) or not all(isinstance(n, int) for n in plain):
            raise TileProbeError(f"{read.where}: `mlp_only_layers` must be a list of layers, found {plain!r}")
        dense = tuple(n for n in range(layers) if n in plain or (n + 1) % every)
    active = read.size("num_experts_per_tok")
    if active > experts:
        raise TileProbeError(
            f"{read.where}: `num_experts_per_tok` ({active}) is more than the {experts} experts"
        )
    found = {"experts": experts, "experts_per_token": active, "expert_ffn": ffn}
    return {**found, "shared_ffn": shared, "dense_layers": dense}


@dataclass(frozen=True)
class _Reader:
    config: dict[str, Any]
    where: str
    family: str

    def size(self, field: str, default: int | None = None) -> int:
        value = self.config.get(field)
        if value is None:
            if default is None:
                raise TileProbeError(
                    f"{self.where}: the field `{field}` is missing, which {self.family} models need"
                )
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise TileProbeError(f"{self.where}: `{field}` must be a positive whole number, found {value!r}")
        return value

    def flag(self, field: str, default: bool) -> bool:
        value = self.config.get(field, default)
        if not isinstance(value, bool):
            raise TileProbeError(f"{self.where}: `{field}` must be true or false, found {value!r}")
        return value
