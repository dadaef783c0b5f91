"""The four families in torch, from their definitions: an independent check of the NumPy decoder."""

from __future__ import annotations

import math


def logits(torch, config, tensors, tokens):
    t = {k: torch.from_numpy(v).double() for k, v in tensors.items()}
    opt = config["model_type"] == "opt"
    root = "model.decoder." if opt else "model."
    heads, d = config["num_attention_heads"], config["hidden_size"]
    groups, size = config.get("num_key_value_heads", heads), d // heads
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
        if opt:
            x = x + linear(layer + "fc2", torch.relu(linear(layer + "fc1", y)))
        else:
            gate = torch.nn.functional.silu(linear(layer + "mlp.gate_proj", y))
            x = x + linear(layer + "mlp.down_proj", gate * linear(layer + "mlp.up_proj", y))
    x = norm(root + ("final_layer_norm" if opt else "norm"), x)
    head = t[f"{root}embed_tokens.weight"] if opt else t["lm_head.weight"]
    return (x @ head.T).numpy()
