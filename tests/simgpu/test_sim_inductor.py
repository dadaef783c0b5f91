"""Kernels of `torch.compile` on the simulated GPU: Inductor writes them for `cuda`, they run and are profiled there."""

import os
import subprocess
import sys

import pytest

from tileprobe.trace import Trace

pytest.importorskip("torch")

SCRIPT = """
import torch

work = torch.compile(lambda a, b: torch.softmax(a * 2 + b, dim=-1))
a, b = (torch.randn(16, 64, device="cuda") for _ in range(2))
for _ in range(6):
    out = work(a, b)
assert torch.allclose(out, torch.softmax(a * 2 + b, dim=-1), atol=1e-5)
print("the same as without")
"""


def test_torch_compile_on_the_simulated_gpu(tmp_path):
    script, out = tmp_path / "script.py", tmp_path / "trace.parquet"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tileprobe", "run", "--target", "sim:a100", "--device-map", "cuda=cpu"]
    command += ["--dense", "--programs", "all", "--trace", str(out), str(script)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    assert "the same as without" in run.stdout
    trace = Trace.open(out)
    assert trace.kernels
    for kernel in trace.kernels:
        assert "softmax" in kernel.name
        assert kernel.target == "sim:a100"
        assert "tl.store" in kernel.source
    kinds = {region.kind for region in trace.regions}
    assert {"kernel", "load", "store"} <= kinds
    programs = trace.intervals["program"].unique().to_list()
    assert len(programs) > 1
