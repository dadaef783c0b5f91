"""torch.compile on Triton kernels, without a GPU: an MLP and a transformer block, forward and backward.

Inductor generates Triton for the CPU when `cpu_backend` is "triton", and with TileProbe it runs. Each model
is compared with eager torch: its output and every gradient.

    python examples/inductor.py
"""

from __future__ import annotations

import copy
import time

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MLP(nn.Module):
    def __init__(self, width: int = 256, hidden: int = 512, out: int = 16):
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, out)

    def forward(self, x: Tensor) -> Tensor:
        x = F.gelu(self.first(x))
        x = F.silu(self.second(x)) + x
        return F.log_softmax(self.last(x), dim=-1)


class Block(nn.Module):
    """Pre-norm causal attention and feed-forward, written out so that nothing hides in one operator."""

    def __init__(self, width: int = 128, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def compare(model: nn.Module, x: Tensor) -> dict[str, float]:
    """The largest difference from eager of the output and of any gradient, relative to the largest value."""
    twin = copy.deepcopy(model)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    outputs = [torch.compile(model)(inputs[0]), twin(inputs[1])]
    for output in outputs:
        output.square().mean().backward()
    gradients = [[i.grad, *(p.grad for p in m.parameters())] for i, m in zip(inputs, (model, twin))]
    return {
        "output": _difference(*outputs),
        "gradients": max(_difference(a, b) for a, b in zip(*gradients)),
    }


def _difference(found: Tensor | None, expected: Tensor | None) -> float:
    assert found is not None
    assert expected is not None
    return ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).item()


def main() -> None:
    import torch._inductor.config as config

    config.cpu_backend = "triton"
    torch.manual_seed(0)
    for name, model, x in (
        ("MLP", MLP(), torch.randn(64, 256)),
        ("transformer block", Block(), torch.randn(2, 64, 128)),
    ):
        begin = time.perf_counter()
        worst = compare(model, x)
        seconds = time.perf_counter() - begin
        print(f"{name}, {seconds:.1f} s: off by {worst['output']:.1e}, gradients by {worst['gradients']:.1e}")


if __name__ == "__main__":
    main()
