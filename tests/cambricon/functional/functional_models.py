"""Small models of every family, written as Hugging Face folders with random weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

EXAMPLE = Path(__file__).parents[3] / "examples" / "tiny-llm"

SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1024}
CONFIGS = {
    "llama": {**SIZES, "model_type": "llama", "num_key_value_heads": 2, "intermediate_size": 76},
    "mistral": {**SIZES, "model_type": "mistral", "num_key_value_heads": 1, "intermediate_size": 53},
    "qwen2": {**SIZES, "model_type": "qwen2", "num_key_value_heads": 4, "intermediate_size": 61},
    "qwen3": {
        **SIZES,
        "model_type": "qwen3",
        "num_key_value_heads": 2,
        "intermediate_size": 61,
        "head_dim": 16,
    },
    "gemma": {
        **SIZES,
        "model_type": "gemma",
        "num_key_value_heads": 1,
        "intermediate_size": 59,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
    },
    "gemma2": {
        **SIZES,
        "model_type": "gemma2",
        "num_key_value_heads": 2,
        "intermediate_size": 59,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": 20,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
        "sliding_window": 300,
    },
    "phi3": {
        **SIZES,
        "model_type": "phi3",
        "num_key_value_heads": 2,
        "intermediate_size": 47,
        "partial_rotary_factor": 0.5,
        "sliding_window": 300,
    },
    "mixtral": {
        **SIZES,
        "model_type": "mixtral",
        "num_key_value_heads": 2,
        "intermediate_size": 37,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
    },
    "qwen3_moe": {
        **SIZES,
        "model_type": "qwen3_moe",
        "num_key_value_heads": 2,
        "intermediate_size": 61,
        "head_dim": 12,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 29,
        "mlp_only_layers": [1],
        "norm_topk_prob": True,
    },
    "opt": {**SIZES, "model_type": "opt", "ffn_dim": 91, "max_position_embeddings": 64},
}


def has_experts(config: dict, layer: int) -> bool:
    many = "num_experts" in config or "num_local_experts" in config
    return many and layer not in config.get("mlp_only_layers", [])


def expert_shapes(config: dict) -> dict[str, tuple[int, int]]:
    d = config["hidden_size"]
    if config["model_type"] == "mixtral":
        count, f, where = config["num_local_experts"], config["intermediate_size"], "block_sparse_moe."
        names = {"w1": (f, d), "w3": (f, d), "w2": (d, f)}
    else:
        count, f, where = config["num_experts"], config["moe_intermediate_size"], "mlp."
        names = {"gate_proj": (f, d), "up_proj": (f, d), "down_proj": (d, f)}
    experts = {f"{where}experts.{e}.{name}": shape for e in range(count) for name, shape in names.items()}
    return {f"{where}gate": (count, d), **experts}


def tensors_of(config: dict) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    d, vocab, heads = config["hidden_size"], config["vocab_size"], config["num_attention_heads"]
    size = config.get("head_dim", d // heads)
    opt = config["model_type"] == "opt"

    def draw(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    root = "model.decoder." if opt else "model."
    out = {f"{root}embed_tokens.weight": draw(vocab, d)}
    last = "final_layer_norm" if opt else "norm"
    out[f"{root}{last}.weight"] = 1 + draw(d)
    if opt:
        out[f"{root}{last}.bias"] = draw(d)
        out[f"{root}embed_positions.weight"] = draw(config["max_position_embeddings"] + 2, d)
    elif not config["model_type"].startswith("gemma"):
        out["lm_head.weight"] = draw(vocab, d)
    narrow = size * config.get("num_key_value_heads", heads)
    shapes = {
        "self_attn.q_proj": (heads * size, d),
        "self_attn.k_proj": (narrow, d),
        "self_attn.v_proj": (narrow, d),
    }
    if opt:
        f = config["ffn_dim"]
        shapes |= {"self_attn.out_proj": (d, d), "fc1": (f, d), "fc2": (d, f)}
        norms, biased = ("self_attn_layer_norm", "final_layer_norm"), set(shapes)
    else:
        f = config["intermediate_size"]
        shapes |= {
            "self_attn.o_proj": (d, heads * size),
            "mlp.gate_proj": (f, d),
            "mlp.up_proj": (f, d),
            "mlp.down_proj": (d, f),
        }
        if config["model_type"] == "phi3":
            shapes = {"self_attn.qkv_proj": (heads * size + 2 * narrow, d), "self_attn.o_proj": (d, heads * size),
                      "mlp.gate_up_proj": (2 * f, d), "mlp.down_proj": (d, f)}  # fmt: skip
        norms = ("input_layernorm", "post_attention_layernorm")
        if config["model_type"] == "gemma2":
            norms = (*norms, "pre_feedforward_layernorm", "post_feedforward_layernorm")
        biased = (
            {n for n in shapes if n[-6:] in ("q_proj", "k_proj", "v_proj")}
            if config["model_type"] == "qwen2"
            else set()
        )
    dense = shapes
    for i in range(config["num_hidden_layers"]):
        shapes = dense
        if has_experts(config, i):
            shapes = {k: v for k, v in dense.items() if not k.startswith("mlp.")} | expert_shapes(config)
        for name in ("q_norm", "k_norm") if config["model_type"].startswith("qwen3") else ():
            out[f"{root}layers.{i}.self_attn.{name}.weight"] = 1 + draw(size)
        for name, shape in shapes.items():
            out[f"{root}layers.{i}.{name}.weight"] = draw(*shape)
            if name in biased:
                out[f"{root}layers.{i}.{name}.bias"] = draw(shape[0])
        for name in norms:
            out[f"{root}layers.{i}.{name}.weight"] = 1 + draw(d)
            if opt:
                out[f"{root}layers.{i}.{name}.bias"] = draw(d)
    return out


def write_folder(folder: Path, config: dict, tensors: dict[str, np.ndarray] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors if tensors is not None else tensors_of(config), str(folder / "model.safetensors"))
    (folder / "tokenizer.json").write_text((EXAMPLE / "tokenizer.json").read_text())
    return folder
