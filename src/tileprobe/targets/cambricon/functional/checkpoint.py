"""The parameters of a model under names of our own, whatever its family calls them.

In: a folder. Out: a `Checkpoint`: weight matrices by layer (rows are outputs), biases, norms and
embeddings, all float32. Matrices go to the flash; the rest is small and stays with the NPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tileprobe.targets.cambricon.functional.family import Spec, read_spec
from tileprobe.targets.cambricon.functional.weights import Tensors

OPT_POSITION_OFFSET = 2  # OPT keeps the first two rows of its position table for padding


@dataclass
class Matrix:
    """A weight matrix, read from disk when asked for: a large model is never in memory as a whole.

    `group` names the input it shares with others, so that they are smoothed together.
    """

    name: str
    load: Callable[[], np.ndarray]
    bias: np.ndarray | None
    group: str


@dataclass
class Checkpoint:
    spec: Spec
    embedding: np.ndarray
    positions: np.ndarray | None
    norms: dict[str, tuple[np.ndarray, np.ndarray | None]]  # weight, bias
    matrices: dict[str, Matrix] = field(default_factory=dict)
    head_norms: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # of queries and keys, in families that have them
    post_norms: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # behind attention and FFN, in families that have them


def matrix_shapes(spec: Spec) -> dict[str, tuple[int, int]]:
    """(outputs, inputs) of every matrix, in the order in which a token meets them."""
    shapes = {f"{i}.{m.name}": (m.rows, m.cols) for i in range(spec.layers) for m in spec.model.matrices(i)}
    return {**shapes, "lm_head": (spec.vocab, spec.hidden)}


_LLAMA = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
}
_OPT = {
    **{k: v for k, v in _LLAMA.items() if k in "qkv"},
    "o": "self_attn.out_proj",
    "up": "fc1",
    "down": "fc2",
    "attention_norm": "self_attn_layer_norm",
    "mlp_norm": "final_layer_norm",
}
_GEMMA2 = {**_LLAMA, "mlp_norm": "pre_feedforward_layernorm"}
_POST = {"attention": "post_attention_layernorm", "mlp": "post_feedforward_layernorm"}
# Phi 3 keeps matrices of one input in one tensor, one below the other
_JOINED = {
    **dict.fromkeys("qkv", ("self_attn.qkv_proj", ("q", "k", "v"))),
    **dict.fromkeys(("gate", "up"), ("mlp.gate_up_proj", ("gate", "up"))),
}
_EXPERTS = {
    "mixtral": {
        "router": "block_sparse_moe.gate",
        **{
            kind: f"block_sparse_moe.experts.{{}}.{name}"
            for kind, name in (("gate", "w1"), ("up", "w3"), ("down", "w2"))
        },
    },
    "qwen3_moe": {
        "router": "mlp.gate",
        **{kind: f"mlp.experts.{{}}.{kind}_proj" for kind in ("gate", "up", "down")},
    },
}
GROUPS = {
    **dict.fromkeys(("q", "k", "v"), "attention_norm"),
    "router": "mlp_norm",
    "gate": "mlp_norm",
    "up": "mlp_norm",
}


def load_checkpoint(folder: Path) -> Checkpoint:
    spec = read_spec(folder)
    tensors = Tensors(folder)
    opt = spec.is_opt
    names = _OPT if opt else _GEMMA2 if spec.model.post_norms else _LLAMA
    root = "model.decoder." if opt else "model."
    if opt and not any(n.startswith(root) for n in tensors.names()):
        root = "decoder."
    embedding = tensors.get(f"{root}embed_tokens.weight", (spec.vocab, spec.hidden))
    positions = None
    if opt:
        shape = (spec.positions + OPT_POSITION_OFFSET, spec.hidden)
        positions = tensors.get(f"{root}embed_positions.weight", shape)[OPT_POSITION_OFFSET:]
    out = Checkpoint(spec, embedding, positions, {})
    last = "final_layer_norm" if opt else "norm"
    out.norms["last_norm"] = _norm(tensors, f"{root}{last}", spec)
    for i in range(spec.layers):
        for norm in ("attention_norm", "mlp_norm"):
            out.norms[f"{i}.{norm}"] = _norm(tensors, f"{root}layers.{i}.{names[norm]}", spec)
        for where, norm in _POST.items() if spec.model.post_norms else ():
            out.post_norms[f"{i}.{where}"] = _norm(tensors, f"{root}layers.{i}.{norm}", spec)[0]
        for norm in "qk" if spec.model.qk_norm else "":
            gain = tensors.get(f"{root}layers.{i}.self_attn.{norm}_norm.weight", (spec.head_size,))
            out.head_norms[f"{i}.{norm}"] = gain
    for name, shape in matrix_shapes(spec).items():
        out.matrices[name] = _matrix(tensors, spec, name, shape, root, names, embedding)
    return out


def _norm(tensors: Tensors, name: str, spec: Spec) -> tuple[np.ndarray, np.ndarray | None]:
    bias = tensors.get(f"{name}.bias", (spec.hidden,)) if spec.is_opt else None
    gain = tensors.get(f"{name}.weight", (spec.hidden,))
    return gain + np.float32(spec.norm_offset) if spec.norm_offset else gain, bias


def _matrix(
    tensors: Tensors,
    spec: Spec,
    name: str,
    shape: tuple[int, int],
    root: str,
    names: dict[str, str],
    embedding: np.ndarray,
) -> Matrix:
    if name == "lm_head":
        if spec.model.tied_embeddings:
            return Matrix(name, lambda: embedding, None, "last_norm")
        tensors.check("lm_head.weight", shape)
        return Matrix(name, lambda: tensors.get("lm_head.weight", shape), None, "last_norm")
    layer, kind, *expert = name.split(".")
    if spec.model.family == "phi3" and kind in _JOINED:
        return _part(tensors, spec, name, shape, f"{root}layers.{layer}.")
    own = _EXPERTS[spec.model.family] if spec.model.is_mixture(int(layer)) else {}
    full = f"{root}layers.{layer}.{ {**names, **own}[kind].format(*expert) }"
    biased = {m.name: m.bias for m in spec.model.matrices(int(layer))}[name.partition(".")[2]]
    bias = tensors.get(f"{full}.bias", shape[:1]) if biased else None
    group = f"{layer}.{GROUPS[kind]}" if kind in GROUPS else name
    tensors.check(f"{full}.weight", shape)
    return Matrix(name, lambda: tensors.get(f"{full}.weight", shape), bias, group)


def _part(tensors: Tensors, spec: Spec, name: str, shape: tuple[int, int], root: str) -> Matrix:
    """The rows of a matrix in a tensor that it shares with others."""
    layer, _, kind = name.partition(".")
    where, kinds = _JOINED[kind]
    rows = [m.rows for m in spec.model.matrices(int(layer)) if m.name in kinds]
    first, full = sum(rows[: kinds.index(kind)]), (sum(rows), shape[1])
    tensors.check(f"{root}{where}.weight", full)

    def load() -> np.ndarray:
        return tensors.get(f"{root}{where}.weight", full)[first : first + shape[0]]

    return Matrix(name, load, None, f"{layer}.{GROUPS[kind]}")
