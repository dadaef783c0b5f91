"""The model as users have it: a built-in name or a Hugging Face `config.json` in, a `Model` of shapes out.

A `Model` says what a decoder layer multiplies by and what it keeps; it holds no weights. Families: OPT,
Llama (2, 3), Mistral, Qwen 2 / 2.5, and whatever spells itself like one of them.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError


@dataclass(frozen=True)
class Matrix:
    """A weight matrix: `rows` outputs by `cols` inputs."""

    name: str
    rows: int
    cols: int
    bias: bool = False

    @property
    def weights(self) -> int:
        return self.rows * self.cols


@dataclass(frozen=True)
class Model:
    """The shapes of a decoder-only model."""

    name: str
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool  # three FFN matrices (gate, up, down) instead of two
    rotary: bool
    activation: str
    qkv_bias: bool
    out_bias: bool
    mlp_bias: bool
    tied_embeddings: bool

    @property
    def query_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def qkv(self) -> tuple[Matrix, ...]:
        return (
            Matrix("q", self.query_size, self.hidden, self.qkv_bias),
            Matrix("k", self.kv_size, self.hidden, self.qkv_bias),
            Matrix("v", self.kv_size, self.hidden, self.qkv_bias),
        )

    @property
    def out(self) -> tuple[Matrix, ...]:
        return (Matrix("o", self.hidden, self.query_size, self.out_bias),)

    @property
    def ffn_in(self) -> tuple[Matrix, ...]:
        up = Matrix("up", self.ffn, self.hidden, self.mlp_bias)
        return (Matrix("gate", self.ffn, self.hidden, self.mlp_bias), up) if self.gated else (up,)

    @property
    def ffn_out(self) -> tuple[Matrix, ...]:
        return (Matrix("down", self.hidden, self.ffn, self.mlp_bias),)

    @property
    def lm_head(self) -> tuple[Matrix, ...]:
        return (Matrix("lm_head", self.vocab, self.hidden),)

    @property
    def layer_matrices(self) -> tuple[Matrix, ...]:
        return self.qkv + self.out + self.ffn_in + self.ffn_out

    @property
    def layer_weights(self) -> int:
        return sum(m.weights for m in self.layer_matrices)

    @property
    def weights(self) -> int:
        """Weights of all layers, without embeddings and lm_head."""
        return self.layers * self.layer_weights

    def with_full_heads(self) -> Model:
        """The same model with as many key and value heads as query heads."""
        if self.kv_heads == self.heads:
            return self
        return dataclasses.replace(self, kv_heads=self.heads, name=f"{self.name} (mha)")


_LLAMA: dict[str, Any] = {
    "family": "llama", "gated": True, "rotary": True, "activation": "silu", "qkv_bias": False, "out_bias":
    False, "mlp_bias": False,
}  # fmt: skip
_OPT: dict[str, Any] = {
    "family": "opt", "gated": False, "rotary": False, "activation": "relu", "qkv_bias": True, "out_bias":
    True, "mlp_bias": True, "tied_embeddings": True,
}  # fmt: skip
_QWEN = {**_LLAMA, "family": "qwen2", "qkv_bias": True}


def _shapes(
    name: str, hidden: int, layers: int, heads: int, kv: int, ffn: int, vocab: int, kind: dict[str, Any]
) -> Model:
    fields = {"tied_embeddings": False, **kind}
    return Model(
        name=name, hidden=hidden, layers=layers, heads=heads, kv_heads=kv, head_dim=hidden // heads, ffn=ffn,
        vocab=vocab, **fields,
    )  # fmt: skip


BUILT_IN: dict[str, Model] = {
    m.name: m
    for m in (
        _shapes("opt-6.7b", 4096, 32, 32, 32, 16384, 50272, _OPT),
        _shapes("opt-13b", 5120, 40, 40, 40, 20480, 50272, _OPT),
        _shapes("opt-30b", 7168, 48, 56, 56, 28672, 50272, _OPT),
        _shapes("opt-66b", 9216, 64, 72, 72, 36864, 50272, _OPT),
        _shapes("llama2-7b", 4096, 32, 32, 32, 11008, 32000, _LLAMA),
        _shapes("llama2-13b", 5120, 40, 40, 40, 13824, 32000, _LLAMA),
        _shapes("llama2-70b", 8192, 80, 64, 8, 28672, 32000, _LLAMA),
        _shapes("llama3-8b", 4096, 32, 32, 8, 14336, 128256, _LLAMA),
        _shapes("llama3-70b", 8192, 80, 64, 8, 28672, 128256, _LLAMA),
        _shapes("qwen2.5-7b", 3584, 28, 28, 4, 18944, 152064, _QWEN),
        _shapes("qwen2.5-72b", 8192, 80, 64, 8, 29568, 152064, _QWEN),
    )
}

_FAMILIES = ("opt", "llama", "mistral", "qwen2")


def load_model(name_or_path: str | Path, mha: bool = False) -> Model:
    """The built-in model of that name, or the one of a `config.json` (its path, or a folder that holds
    it).
    """
    key = str(name_or_path).lower()
    model = BUILT_IN.get(key) or _from_file(Path(name_or_path))
    return model.with_full_heads() if mha else model


def _from_file(path: Path) -> Model:
    file = path / "config.json" if path.is_dir() else path
    if not file.is_file():
        raise TileProbeError(
            f"no model {str(path)!r}: expected one of {', '.join(BUILT_IN)}, or the path of a Hugging Face "
            f"config.json"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise TileProbeError(f"{file} is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise TileProbeError(f"{file} must hold a JSON object, found {type(config).__name__}")
    return from_config(
        config, str(file), file.resolve().parent.name if file.name == "config.json" else file.stem
    )


def from_config(config: dict[str, Any], where: str = "config.json", name: str = "") -> Model:
    """A `Model` from the fields of a Hugging Face configuration."""
    family = config.get("model_type")
    if family not in _FAMILIES:
        raise TileProbeError(
            f"{where}: unknown family model_type = {family!r}; expected one of {', '.join(_FAMILIES)}"
        )
    read = _Reader(config, where, family)
    hidden, heads = read.size("hidden_size"), read.size("num_attention_heads")
    head_dim = read.size("head_dim", default=hidden // heads if hidden % heads == 0 else None)
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
        "qkv_bias": bias or family == "qwen2",
        "out_bias": bias,
        "mlp_bias": read.flag("mlp_bias", False),
    }
    kind.update(
        kv_heads=kv_heads,
        ffn=read.size("intermediate_size"),
        activation=str(config.get("hidden_act", "silu")),
        tied_embeddings=read.flag("tie_word_embeddings", False),
    )
    return Model(**common, **kind)


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
