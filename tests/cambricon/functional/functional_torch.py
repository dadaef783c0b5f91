"""The families in torch, from their definitions: an independent check of the NumPy decoder."""

from __future__ import annotations

import math

from functional_models import has_experts


def logits(torch, config, tensors, tokens):
    t = {k: torch.from_numpy(v).double() for k, v in tensors.items()}
    opt = config["model_type"] == "opt"
    root = "model.decoder." if opt else "model."
    heads, d = config["num_attention_heads"], config["hidden_size"]
    groups, size = config.get("num_key_value_heads", heads), config.get("head_dim", d // heads)
    n = len(tokens)

    def linear(name, x):
        return torch.nn.functional.linear(x, t[f"{name}.weight"], t.get(f"{name}.bias"))

    def norm(name, x):
        if opt:
            return torch.nn.functional.layer_norm(x, (d,), t[f"{name}.weight"], t[f"{name}.bias"], 1e-5)
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6) * t[f"{name}.weight"]

    def rope(x):
        angle = torch.arange(n)[:, None].double() * 10000.0 ** (-torch.arange(0, size, 2).double() / size)
        cos, sin = angle.cos()[None], angle.sin()[None]
        a, b = x[..., : size // 2], x[..., size // 2 :]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    x = t[f"{root}embed_tokens.weight"][tokens]
    if opt:
        x = x + t[f"{root}embed_positions.weight"][torch.arange(n) + 2]
    for i in range(config["num_hidden_layers"]):
        layer = f"{root}layers.{i}."
        y = norm(layer + ("self_attn_layer_norm" if opt else "input_layernorm"), x)
        q = linear(layer + "self_attn.q_proj", y).view(n, heads, size).transpose(0, 1)
        k = linear(layer + "self_attn.k_proj", y).view(n, groups, size).transpose(0, 1)
        v = linear(layer + "self_attn.v_proj", y).view(n, groups, size).transpose(0, 1)
        if config["model_type"].startswith("qwen3"):
            q, k = (
                z
                / torch.sqrt((z**2).mean(-1, keepdim=True) + 1e-6)
                * t[f"{layer}self_attn.{name}_norm.weight"]
                for name, z in (("q", q), ("k", k))
            )
        if not opt:
            q, k = rope(q), rope(k)
        k, v = (z.repeat_interleave(heads // groups, 0) for z in (k, v))
        mask = torch.full((n, n), -math.inf).triu(1)
        y = (
            (torch.softmax(q @ k.transpose(1, 2) / math.sqrt(size) + mask, -1) @ v)
            .transpose(0, 1)
            .reshape(n, -1)
        )
        x = x + linear(layer + ("self_attn.out_proj" if opt else "self_attn.o_proj"), y)
        y = norm(layer + ("final_layer_norm" if opt else "post_attention_layernorm"), x)
        if has_experts(config, i):
            x = x + mixture(torch, config, linear, layer, y)
        elif opt:
            x = x + linear(layer + "fc2", torch.relu(linear(layer + "fc1", y)))
        else:
            gate = torch.nn.functional.silu(linear(layer + "mlp.gate_proj", y))
            x = x + linear(layer + "mlp.down_proj", gate * linear(layer + "mlp.up_proj", y))
    x = norm(root + ("final_layer_norm" if opt else "norm"), x)
    head = t[f"{root}embed_tokens.weight"] if opt else t["lm_head.weight"]
    return (x @ head.T).numpy()


def mixture(torch, config, linear, layer, y):
    """As the families' reference code has it: a softmax over all experts, the largest, made to add up to one."""
    mixtral = config["model_type"] == "mixtral"
    root = layer + ("block_sparse_moe." if mixtral else "mlp.")
    gate, up, down = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
    weights, chosen = torch.topk(
        torch.softmax(linear(root + "gate", y), -1), config["num_experts_per_tok"], -1
    )
    weights = weights / weights.sum(-1, keepdim=True)
    out = torch.zeros_like(y)
    for n in range(len(y)):
        for weight, e in zip(weights[n], chosen[n].tolist()):
            expert = f"{root}experts.{e}."
            act = torch.nn.functional.silu(linear(expert + gate, y[n])) * linear(expert + up, y[n])
            out[n] += weight * linear(expert + down, act)
    return out
