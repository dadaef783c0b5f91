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

    gemma, phi = config["model_type"].startswith("gemma"), config["model_type"] == "phi3"
    gemma2, score_size = config["model_type"] == "gemma2", config.get("query_pre_attn_scalar", size)
    turning = int(size * config.get("partial_rotary_factor", 1.0))

    def norm(name, x):
        if opt:
            return torch.nn.functional.layer_norm(x, (d,), t[f"{name}.weight"], t[f"{name}.bias"], 1e-5)
        gain = 1.0 + t[f"{name}.weight"] if gemma else t[f"{name}.weight"]
        return x / torch.sqrt((x**2).mean(-1, keepdim=True) + 1e-6) * gain

    def rope(x):
        angle = torch.arange(n)[:, None].double() * 10000.0 ** (
            -torch.arange(0, turning, 2).double() / turning
        )
        cos, sin = angle.cos()[None], angle.sin()[None]
        a, b, rest = x.split((turning // 2, turning // 2, size - turning), -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)

    def cap(x, field):
        return x if config.get(field) is None else config[field] * torch.tanh(x / config[field])

    def behind(layer, name, x):
        return norm(f"{layer}post_{name}_layernorm", x) if gemma2 else x

    def projected(layer, names, joined, widths, y):
        """Products by one input, whose weights may be in one tensor."""
        if phi:
            return linear(layer + joined, y).split(widths, -1)
        return [linear(layer + name, y) for name in names]

    x = t[f"{root}embed_tokens.weight"][tokens]
    if gemma:
        x = x * math.sqrt(d)
    if opt:
        x = x + t[f"{root}embed_positions.weight"][torch.arange(n) + 2]
    for i in range(config["num_hidden_layers"]):
        layer = f"{root}layers.{i}."
        y = norm(layer + ("self_attn_layer_norm" if opt else "input_layernorm"), x)
        names, widths = [f"self_attn.{x}_proj" for x in "qkv"], [heads * size, groups * size, groups * size]
        parts = projected(layer, names, "self_attn.qkv_proj", widths, y)
        q, k, v = (part.view(n, -1, size).transpose(0, 1) for part in parts)
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
        scores = cap(q @ k.transpose(1, 2) / math.sqrt(score_size), "attn_logit_softcapping")
        y = (torch.softmax(scores + mask, -1) @ v).transpose(0, 1).reshape(n, -1)
        y = linear(layer + ("self_attn.out_proj" if opt else "self_attn.o_proj"), y)
        x = x + behind(layer, "attention", y)
        before_ffn = "pre_feedforward_layernorm" if gemma2 else "post_attention_layernorm"
        y = norm(layer + ("final_layer_norm" if opt else before_ffn), x)
        if has_experts(config, i):
            x = x + mixture(torch, config, linear, layer, y)
        elif opt:
            x = x + linear(layer + "fc2", torch.relu(linear(layer + "fc1", y)))
        else:
            names, f = ["mlp.gate_proj", "mlp.up_proj"], config["intermediate_size"]
            gate, up = projected(layer, names, "mlp.gate_up_proj", [f, f], y)
            if gemma:
                gate = torch.nn.functional.gelu(gate, approximate="tanh")
            else:
                gate = torch.nn.functional.silu(gate)
            x = x + behind(layer, "feedforward", linear(layer + "mlp.down_proj", gate * up))
    x = norm(root + ("final_layer_norm" if opt else "norm"), x)
    head = t[f"{root}embed_tokens.weight"] if opt or gemma else t["lm_head.weight"]
    return cap(x @ head.T, "final_logit_softcapping").numpy()


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
