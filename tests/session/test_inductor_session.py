"""Kernels that `torch.compile` generates are profiled like any other."""

import pytest

import tileprobe

torch = pytest.importorskip("torch")


def test_torch_compile():
    import torch._inductor.config as inductor

    tileprobe.use("cpu")
    x, y = torch.randn(64, 512), torch.randn(64, 512)
    with inductor.patch(cpu_backend="triton"):
        function = torch.compile(lambda a, b: torch.softmax(a * 2 + b, dim=-1))
        with tileprobe.profile(alternate=False) as session:
            result = function(x, y)
    torch.testing.assert_close(result, torch.softmax(x * 2 + y, dim=-1))
    assert session.seen
    (kernel,) = session.trace.kernels
    assert "softmax" in kernel.name
    assert "tl.store" in kernel.source
    assert session.trace.losses.kept > 0
