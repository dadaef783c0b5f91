"""torch.compile on the CPU target: Inductor's Triton kernels run here, its C++ backend works as before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="needs compiled kernels")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def inductor(tmp_path, monkeypatch):
    """Inductor with empty caches that compiles in this process, so that launches can be counted."""
    import torch._dynamo
    import torch._inductor.config as config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    with config.patch(compile_threads=1, fx_graph_cache=False):
        yield config
    torch._dynamo.reset()


@pytest.fixture
def launches():
    from triton import knobs

    names = []
    count = lambda metadata: names.append(metadata.get()["name"])
    knobs.runtime.launch_enter_hook.add(count)
    yield names
    knobs.runtime.launch_enter_hook.remove(count)


def models():
    from examples.inductor import MLP, Block

    torch.manual_seed(0)
    return {
        "mlp": (MLP(48, 80, 10), torch.randn(24, 48)),
        "block": (Block(32, 2), torch.randn(2, 19, 32)),
    }


@pytest.mark.parametrize("name", ["mlp", "block"])
def test_forward_and_backward_match_eager(name, inductor, launches):
    from examples.inductor import compare

    with inductor.patch(cpu_backend="triton"):
        worst = compare(*models()[name])
    assert len(launches) > 3
    # float32 with the sums in another order
    assert worst["output"] < 1e-5
    assert worst["gradients"] < 1e-5


def test_reductions_scans_and_indexing(inductor, launches):
    def work(x, index):
        rows = x[index].cumsum(1)
        return rows.var(dim=1), rows.argmax(dim=1), torch.where(rows > 0, rows.sqrt(), rows.tanh()).amax(0)

    x, index = torch.randn(70, 130), torch.randint(0, 70, (33,))
    with inductor.patch(cpu_backend="triton"):
        found = torch.compile(work)(x, index)
    assert launches
    for a, b in zip(found, work(x, index)):
        torch.testing.assert_close(a, b)


def test_matmul_templates(inductor, launches):
    def work(a, b, c):
        return torch.relu(a @ b + c)

    a, b, c = torch.randn(96, 64), torch.randn(64, 80), torch.randn(80)
    settings = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    # torch 2.13 writes Python that does not parse when it benchmarks fused kernels for the CPU
    settings["benchmark_epilogue_fusion"] = False
    with inductor.patch(cpu_backend="triton", **settings):
        found = torch.compile(work)(a, b, c)
    assert launches
    torch.testing.assert_close(found, work(a, b, c))


def test_the_cpp_backend_is_left_alone(inductor, launches):
    def work(x):
        return torch.softmax(x.sin(), dim=-1)

    x, y = (torch.linspace(-3, 3, 640).reshape(10, 64).requires_grad_() for _ in range(2))
    found, expected = torch.compile(work)(x), work(y)
    found.square().sum().backward()
    expected.square().sum().backward()
    assert not launches
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(x.grad, y.grad)


def test_compiling_in_worker_processes(tmp_path):
    """As users run it: Inductor's own processes compile, and this one loads what they cached."""
    script = """
import torch
import torch._inductor.config as config
config.cpu_backend = "triton"
x = torch.randn(1000)
found = torch.compile(lambda x: (x.sin() * 2 + x.cos()).relu())(x)
torch.testing.assert_close(found, (x.sin() * 2 + x.cos()).relu())
"""
    folders = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    environment = {**os.environ, **folders, "TORCHINDUCTOR_COMPILE_THREADS": "2"}
    environment.pop("TRITON_DEFAULT_BACKEND", None)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
