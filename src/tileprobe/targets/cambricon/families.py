"""How families of models spell their shapes: the fields of a Hugging Face configuration in, a `Model` out.

What a family has that is not modelled is refused by the name of its field; what a field says that changes nothing here,
or so little that it is not counted, is among the model's `notes`. So nothing is left out silently.
"""

from __future__ import annotations

from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.config_fields import Fields
from tileprobe.targets.cambricon.model import _LLAMA, _OPT, Latent, Model

DENSE = ("opt", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi3")
MIXTURES = ("mixtral", "qwen2_moe", "qwen3_moe", "deepseek_v2", "deepseek_v3")
FAMILIES = DENSE + MIXTURES
WINDOWED = ("mistral", "mixtral", "gemma2", "phi3", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe")
# Where the field is left out, Transformers takes another number of heads than all of them, or another size than the
# hidden state divided among them: a number of that family's first model, which is no reading of this configuration.
NEED_KV_HEADS = ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2")
NEED_HEAD_DIM = ("gemma", "gemma2", "qwen3")
KINDS_OF_LAYERS = ("full_attention", "sliding_attention")


def from_config(config: dict[str, Any], where: str = "config.json", name: str = "") -> Model:
    """A `Model` from the fields of a Hugging Face configuration."""
    family = config.get("model_type")
    if family not in FAMILIES:
        inside = "; `text_config` holds the language model of one that also sees or hears"
        raise TileProbeError(
            f"{where}: unknown family model_type = {family!r}; expected one of {', '.join(FAMILIES)}"
            f"{inside if 'text_config' in config else ''}"
        )
    read = Fields(config, where, family)
    _refuse(read)
    hidden, heads = read.size("hidden_size"), read.size("num_attention_heads")
    common = {
        "name": name or str(config.get("_name_or_path") or where),
        "hidden": hidden,
        "layers": read.size("num_hidden_layers"),
        "heads": heads,
        "head_dim": _head_dim(read, hidden, heads),
        "vocab": read.size("vocab_size"),
        "notes": _notes(read),
    }
    if family == "opt":
        return Model(**common, **_opt(read, hidden, heads))
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
        kv_heads=_kv_heads(read, heads),
        ffn=read.size("intermediate_size"),
        activation=_activation(read, "gelu" if gemma else "silu"),
        tied_embeddings=read.flag("tie_word_embeddings", gemma),
        qk_norm=family.startswith("qwen3"),
        post_norms=family == "gemma2",
    )
    kind["windows"] = _windows(read, common["layers"])
    if family.startswith("deepseek"):
        kind.update(_deepseek(read))
    if family in MIXTURES:
        kind.update(_experts(read, common["layers"]))
    return Model(**common, **kind)


def _refuse(read: Fields) -> None:
    """What no family here does."""
    for field in ("is_encoder_decoder", "add_cross_attention"):
        if read.flag(field, False):
            raise read.error(
                field, "is true: only decoders without attention to another sequence are simulated"
            )
    for field in ("num_local_experts", "num_experts", "n_routed_experts"):
        if read.family in DENSE and read.count(field) > 1:
            raise read.error(field, f"is {read.config[field]}, but {read.family} models have no experts")
    if read.family != "phi3" and read.config.get("partial_rotary_factor") not in (None, 1, 1.0):
        raise read.error("partial_rotary_factor", "is for models of model_type phi3 alone")
    kinds = read.config.get("layer_types")
    if kinds is None:
        return
    if not isinstance(kinds, list) or len(kinds) != read.size("num_hidden_layers"):
        raise read.error("layer_types", "must be a list of one kind for each of the `num_hidden_layers`")
    for kind in kinds:
        if kind not in KINDS_OF_LAYERS:
            raise read.error(
                "layer_types", f"has {kind!r}; layers here are of {' or '.join(KINDS_OF_LAYERS)}"
            )
    if "sliding_attention" in kinds and not (
        read.family in WINDOWED and read.config.get("sliding_window") is not None and _slides(read)
    ):
        raise read.error("layer_types", "has sliding_attention, but no `sliding_window` is in use")


def _notes(read: Fields) -> tuple[str, ...]:
    found, config = [], read.config
    quantised = config.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, dict) else quantised
        found.append(f"quantization_config ({method}): not used; weights are as wide as --weights says")
    if config.get("partial_rotary_factor") not in (None, 1, 1.0):
        found.append("partial_rotary_factor: rotary positions are counted for whole heads")
    if read.count("num_nextn_predict_layers"):
        found.append("num_nextn_predict_layers: heads that predict further tokens are not counted")
    return tuple(found)


def _head_dim(read: Fields, hidden: int, heads: int) -> int:
    if read.family.startswith("deepseek"):  # heads have three sizes, of `Latent`
        return read.size("v_head_dim")
    if hidden % heads or read.family in NEED_HEAD_DIM:
        return read.size("head_dim")
    return read.size("head_dim", default=hidden // heads)


def _kv_heads(read: Fields, heads: int) -> int:
    if read.family.startswith("deepseek"):  # one latent vector for all
        return 1
    needed = read.family in NEED_KV_HEADS and "num_key_value_heads" not in read.config
    kv_heads = read.size("num_key_value_heads", default=None if needed else heads)
    if heads % kv_heads:
        raise TileProbeError(
            f"{read.where}: num_attention_heads ({heads}) must be a multiple of num_key_value_heads ({kv_heads})"
        )
    return kv_heads


def _activation(read: Fields, default: str) -> str:
    own = "hidden_activation" if read.config.get("hidden_activation") is not None else "hidden_act"
    return read.word(own, default)


def _opt(read: Fields, hidden: int, heads: int) -> dict[str, Any]:
    if read.size("word_embed_proj_dim", default=hidden) != hidden:
        raise read.error("word_embed_proj_dim", "other than `hidden_size` is not supported")
    bias = read.flag("enable_bias", True)
    return {
        **_OPT, "qkv_bias": bias, "out_bias": bias, "mlp_bias": bias, "kv_heads": heads, "ffn": read.size("ffn_dim"),
        "activation": read.word("activation_function", "relu"),
        "tied_embeddings": read.flag("tie_word_embeddings", True),
    }  # fmt: skip


def _slides(read: Fields) -> bool:
    """Whether the window is in use: Qwen's configurations name one that is not."""
    return read.flag("use_sliding_window", not read.family.startswith("qwen"))


def _windows(read: Fields, layers: int) -> tuple[int, ...]:
    """How far each layer sees: families slide over a window in all layers, in every second, or in the last ones."""
    if read.family not in WINDOWED or read.config.get("sliding_window") is None or not _slides(read):
        return ()
    window, kinds = read.size("sliding_window"), read.config.get("layer_types")
    if kinds is not None:
        return tuple(window if kind == "sliding_attention" else 0 for kind in kinds)
    if read.family == "gemma2":
        return tuple(0 if n % 2 else window for n in range(layers))
    if read.family.startswith("qwen"):
        first = read.count("max_window_layers", needed=True)
        return tuple(window if n >= first else 0 for n in range(layers))
    return (window,) * layers


def _deepseek(read: Fields) -> dict[str, Any]:
    """Latent attention."""
    names = ("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim")
    rank = 0 if read.config.get("q_lora_rank") is None else read.size("q_lora_rank")
    return {"latent": Latent(*[*(read.size(name) for name in names), rank])}


def _experts(read: Fields, layers: int) -> dict[str, Any]:
    """The mixture of a family: Mixtral's experts are as wide as its FFN, others' have a width of their own."""
    family, shared = read.family, 0
    names = {
        "mixtral": "num_local_experts",
        "deepseek_v2": "n_routed_experts",
        "deepseek_v3": "n_routed_experts",
    }
    experts, active = read.size(names.get(family, "num_experts")), read.size("num_experts_per_tok")
    if active > experts:
        raise read.error("num_experts_per_tok", f"({active}) is more than the {experts} experts")
    ffn = read.size("intermediate_size" if family == "mixtral" else "moe_intermediate_size")
    if family == "qwen2_moe":
        shared = read.size("shared_expert_intermediate_size")
    elif family.startswith("deepseek"):
        shared = read.count("n_shared_experts") * ffn
    dense = _dense_layers(read, layers)
    if len(dense) == layers:
        return {}
    return {
        "experts": experts, "experts_per_token": active, "expert_ffn": ffn, "shared_ffn": shared,
        "shared_gate": family == "qwen2_moe", "dense_layers": dense,
    }  # fmt: skip


def _dense_layers(read: Fields, layers: int) -> tuple[int, ...]:
    if read.family == "mixtral":
        return ()
    if read.family.startswith("deepseek"):
        first, every = read.count("first_k_dense_replace"), read.size("moe_layer_freq", 1)
        return tuple(n for n in range(layers) if n < first or n % every)
    every, plain = read.size("decoder_sparse_step", 1), read.config.get("mlp_only_layers") or []
    if not isinstance(plain, list) or not all(
        type(n) is int and 0 <= n < layers for n in plain
    ):  # True is no layer
        raise read.error("mlp_only_layers", f"must be a list of layers, 0 to {layers - 1}, found {plain!r}")
    return tuple(n for n in range(layers) if n in plain or (n + 1) % every)
