"""Trains the small Llama of this folder with torch, on the CPU, and writes it as a Hugging Face folder.

In: the text that prepare_text.py writes. Out: config.json, model.safetensors (float16), tokenizer.json and
heldout.txt, the end of the text, which training never sees. Running the model needs none of what is used
here.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import nn

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 340,  # no power of two: the odd case is the usual one
    "vocab_size": 1024,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "torch_dtype": "float16",
}
HELD_OUT_CHARS = 100_000  # never trained on
HELD_OUT_SHIPPED = 24_000  # enough for the experiments; the repository stays small


class RMSNorm(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + CONFIG["rms_norm_eps"]) * self.weight


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        d, heads, groups, size = (
            CONFIG[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim")
        )
        self.q_proj = nn.Linear(d, heads * size, bias=False)
        self.k_proj = nn.Linear(d, groups * size, bias=False)
        self.v_proj = nn.Linear(d, groups * size, bias=False)
        self.o_proj = nn.Linear(heads * size, d, bias=False)
        self.heads, self.groups, self.size = heads, groups, size

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q = rotate(self.q_proj(x).view(batch, length, self.heads, self.size).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        k, v = (t.repeat_interleave(self.heads // self.groups, dim=1) for t in (k, v))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        d, f = CONFIG["hidden_size"], CONFIG["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(d, f, bias=False), nn.Linear(d, f, bias=False)
        self.down_proj = nn.Linear(f, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = (
            RMSNorm(CONFIG["hidden_size"]) for _ in range(2)
        )
        self.self_attn, self.mlp = Attention(), MLP()

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Named as Hugging Face names it, so that the state is the checkpoint."""

    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(CONFIG["vocab_size"], CONFIG["hidden_size"])
        self.layers = nn.ModuleList(Layer() for _ in range(CONFIG["num_hidden_layers"]))
        self.norm = RMSNorm(CONFIG["hidden_size"])
        inverse = CONFIG["rope_theta"] ** (-torch.arange(0, CONFIG["head_dim"], 2) / CONFIG["head_dim"])
        angle = torch.outer(torch.arange(CONFIG["max_position_embeddings"]), inverse).repeat(1, 2)
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(
                    parameter, std=0.02 / math.sqrt(2 * CONFIG["num_hidden_layers"]) if deep else 0.02
                )

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        return self.norm(x) @ self.embed_tokens.weight.T


def train_tokenizer(text: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["vocab_size"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.split("\n\n"), trainer)
    return tokenizer


def batches(tokens: np.ndarray, count: int, rng: np.random.Generator):
    length = CONFIG["max_position_embeddings"]
    starts = rng.integers(0, len(tokens) - length - 1, count)
    block = torch.from_numpy(np.stack([tokens[s : s + length + 1] for s in starts]))
    return block[:, :-1], block[:, 1:]


@torch.no_grad()
def held_out_loss(model: Llama, tokens: np.ndarray) -> float:
    length = CONFIG["max_position_embeddings"]
    losses = []
    for start in range(0, min(len(tokens) - 1, 8000) - length, length):
        block = torch.from_numpy(tokens[start : start + length + 1])[None]
        losses.append(F.cross_entropy(model(block[:, :-1])[0], block[0, 1:]).item())
    return sum(losses) / len(losses)


def train(model: Llama, tokens: np.ndarray, held: np.ndarray, args: argparse.Namespace) -> None:
    rng = np.random.default_rng(args.seed)
    decay = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.rate, betas=(0.9, 0.95))
    begin, step = time.time(), 0
    while (done := min((time.time() - begin) / (60 * args.minutes), 1.0)) < 1.0:
        rate = args.rate * min(1.0, (step + 1) / 100) * (0.05 + 0.95 * (0.5 + 0.5 * math.cos(math.pi * done)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        inputs, targets = batches(tokens, args.batch, rng)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}, {100 * done:.0f} % of the time", flush=True)
    print(f"{step} steps, held-out loss {held_out_loss(model, held):.3f}", flush=True)


def save(model: Llama, tokenizer: Tokenizer, held: str, folder: Path) -> None:
    state = {f"model.{k}": v.to(torch.float16).contiguous() for k, v in model.state_dict().items()}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "heldout.txt").write_text(held[:HELD_OUT_SHIPPED], encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    parser.add_argument("--minutes", type=float, default=12.0)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    text = args.text.read_text(encoding="utf-8")
    text, held = text[:-HELD_OUT_CHARS], text[-HELD_OUT_CHARS:]
    tokenizer = train_tokenizer(text)
    tokens, held_tokens = (np.array(tokenizer.encode(t).ids, dtype=np.int64) for t in (text, held))
    model = Llama()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(tokens):,} tokens", flush=True)
    train(model, tokens, held_tokens, args)
    save(model, tokenizer, held, args.out)


if __name__ == "__main__":
    main()
