"""The model as users have it: a built-in name or a Hugging Face `config.json` in, a `Model` of shapes out.

A `Model` says what a decoder layer multiplies by and what it keeps; it holds no weights. `families.py` knows how each
family spells it.
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
class Latent:
    """DeepSeek's attention: a token keeps `rank` + `rope` values a layer; each head unfolds its keys (`nope`) and
    values from them, on the side of the query and of the result.
    """

    rank: int
    rope: int
    nope: int
    value: int
    query_rank: int  # 0: queries come straight from the hidden state


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
    qk_norm: bool = False  # queries and keys are normalised, head by head
    post_norms: bool = False  # norms behind attention and FFN, too (Gemma 2)
    experts: int = 0  # of an FFN that is a mixture of them; 0: one dense FFN
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0  # of experts that every token uses
    shared_gate: bool = False  # what they add is scaled by one more output of the router (Qwen 2)
    dense_layers: tuple[int, ...] = ()  # layers without experts in a model that has some

    windows: tuple[
        int, ...
    ] = ()  # of each layer: how far attention sees, 0 for all; empty: all of them see all
    latent: Latent | None = None  # keys and values in one latent vector (MLA)
    notes: tuple[str, ...] = dataclasses.field(default=(), compare=False)  # of its configuration, not counted

    def window(self, layer: int) -> int:
        return self.windows[layer] if self.windows else 0

    def kind(self, layer: int) -> tuple[bool, int]:
        """Layers of one kind are alike but for their weights."""
        return self.is_mixture(layer), self.window(layer)

    @property
    def cached_values(self) -> int:
        """Values that a layer keeps of each token."""
        return self.latent.rank + self.latent.rope if self.latent else 2 * self.kv_size

    def is_mixture(self, layer: int) -> bool:
        """Whether the FFN of a layer is a mixture of experts."""
        return self.experts > 0 and layer not in self.dense_layers

    def matrices(self, layer: int) -> tuple[Matrix, ...]:
        """Every matrix of a layer, in the order in which a token meets them; those of experts by number."""
        attention = self.attention
        if not self.is_mixture(layer):
            return attention + self.ffn_in + self.ffn_out
        each = self.expert_in + self.expert_out
        routed = [dataclasses.replace(m, name=f"{m.name}.{e}") for e in range(self.experts) for m in each]
        shared = self.shared_in + self.shared_out if self.shared_ffn else ()
        return (*attention, *self.router, *shared, *routed)

    @property
    def router(self) -> tuple[Matrix, ...]:
        return (Matrix("router", self.experts + self.shared_gate, self.hidden),)

    @property
    def expert_in(self) -> tuple[Matrix, ...]:
        return tuple(Matrix(name, self.expert_ffn, self.hidden) for name in ("gate", "up"))

    @property
    def expert_out(self) -> tuple[Matrix, ...]:
        return (Matrix("down", self.hidden, self.expert_ffn),)

    @property
    def shared_in(self) -> tuple[Matrix, ...]:
        return tuple(Matrix(f"shared {name}", self.shared_ffn, self.hidden) for name in ("gate", "up"))

    @property
    def shared_out(self) -> tuple[Matrix, ...]:
        return (Matrix("shared down", self.hidden, self.shared_ffn),)

    @property
    def query_size(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.kv_heads * self.head_dim

    @property
    def latent_in(self) -> tuple[Matrix, ...]:
        assert self.latent is not None
        m = self.latent
        query = Matrix("q_a", m.query_rank, self.hidden) if m.query_rank else self.latent_query
        return query, Matrix("kv_a", m.rank + m.rope, self.hidden)

    @property
    def latent_query(self) -> Matrix:
        assert self.latent is not None
        m = self.latent
        return Matrix(
            "q_b" if m.query_rank else "q", self.heads * (m.nope + m.rope), m.query_rank or self.hidden
        )

    @property
    def latent_heads(self) -> tuple[Matrix, Matrix]:
        """Of each head: queries into the latent space, results out of it."""
        assert self.latent is not None
        m = self.latent
        return Matrix("k_up", m.rank, m.nope), Matrix("v_up", m.value, m.rank)

    @property
    def attention(self) -> tuple[Matrix, ...]:
        """The matrices of attention, in the order in which a token meets them."""
        if self.latent is None:
            return self.qkv + self.out
        between = (self.latent_query,) if self.latent.query_rank else ()
        heads = [
            dataclasses.replace(m, name=f"{m.name}.{h}") for m in self.latent_heads for h in range(self.heads)
        ]
        return (*self.latent_in, *between, *heads, *self.out)

    @property
    def qkv(self) -> tuple[Matrix, ...]:
        return (
            Matrix("q", self.query_size, self.hidden, self.qkv_bias),
            Matrix("k", self.kv_size, self.hidden, self.qkv_bias),
            Matrix("v", self.kv_size, self.hidden, self.qkv_bias),
        )

    @property
    def out(self) -> tuple[Matrix, ...]:
        size = self.heads * self.latent.value if self.latent else self.query_size
        return (Matrix("o", self.hidden, size, self.out_bias),)

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
    def weights(self) -> int:
        """Weights of all layers, without embeddings and lm_head."""
        return sum(m.weights for layer in range(self.layers) for m in self.matrices(layer))

    @property
    def active_weights(self) -> int:
        """Of these, the ones that a token meets."""
        idle = (self.experts - self.experts_per_token) * sum(
            m.weights for m in self.expert_in + self.expert_out
        )
        return self.weights - idle * sum(map(self.is_mixture, range(self.layers)))

    def with_full_heads(self) -> Model:
        """The same model with as many key and value heads as query heads."""
        if self.kv_heads == self.heads or self.latent is not None:
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


_QWEN3 = {**_LLAMA, "family": "qwen3", "qk_norm": True}
_MIXTRAL = {**_LLAMA, "family": "mixtral"}


def _shapes(
    name: str, hidden: int, layers: int, heads: int, kv: int, ffn: int, vocab: int, kind: dict[str, Any]
) -> Model:
    fields = {"tied_embeddings": False, "head_dim": hidden // heads, **kind}
    return Model(
        name=name, hidden=hidden, layers=layers, heads=heads, kv_heads=kv, ffn=ffn, vocab=vocab, **fields
    )


def _mixture(experts: int, active: int, ffn: int, kind: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**kind, "experts": experts, "experts_per_token": active, "expert_ffn": ffn, **more}


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
        # as in the config.json of Qwen/Qwen3-8B, Qwen/Qwen3-30B-A3B and mistralai/Mixtral-8x7B-v0.1
        _shapes("qwen3-8b", 4096, 36, 32, 8, 12288, 151936, {**_QWEN3, "head_dim": 128}),
        _shapes(
            "qwen3-30b-a3b",
            2048,
            48,
            32,
            4,
            6144,
            151936,
            _mixture(128, 8, 768, {**_QWEN3, "family": "qwen3_moe", "head_dim": 128}),
        ),
        _shapes("mixtral-8x7b", 4096, 32, 32, 8, 14336, 32000, _mixture(8, 2, 14336, _MIXTRAL)),
    )
}


def load_model(name_or_path: str | Path, mha: bool = False) -> Model:
    """The built-in model of that name, or the one of a `config.json` (its path, or a folder that holds
    it).
    """
    key = str(name_or_path).lower()
    model = BUILT_IN.get(key) or _from_file(Path(name_or_path))
    return model.with_full_heads() if mha else model


def _from_file(path: Path) -> Model:
    file = path
    try:
        file = path / "config.json" if path.is_dir() else path
        there = file.is_file()
    except OSError:  # a name that no file can have
        there = False
    if not there:
        raise TileProbeError(
            f"no model {str(path)!r}: expected one of {', '.join(BUILT_IN)}, or the path of a Hugging Face "
            f"config.json"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, thousands of brackets
        raise TileProbeError(f"{file} is not valid JSON: {error}") from None
    except OSError as error:
        raise TileProbeError(f"{file} cannot be read: {error.strerror}") from None
    if not isinstance(config, dict):
        raise TileProbeError(f"{file} must hold a JSON object, found {type(config).__name__}")
    from tileprobe.targets.cambricon.families import from_config

    return from_config(
        config, str(file), file.resolve().parent.name if file.name == "config.json" else file.stem
    )
