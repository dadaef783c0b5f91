"""Inductor's own templates of matrix products on the simulated GPU: tuned there, and right."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SCRIPT = """
import torch
from torch._inductor import config
from torch._inductor.utils import run_and_get_code

config.max_autotune_gemm, config.max_autotune_gemm_backends = True, "TRITON"
config.test_configs.max_mm_configs = 2

def work(a, b, c):
    return torch.relu(a @ b + c)

a, b, c = (torch.randn(*shape, device="cuda", dtype=torch.float16) for shape in ((48, 64), (64, 32), (32,)))
out, code = run_and_get_code(torch.compile(work), a, b, c)
assert "triton_tem" in code[0], code[0]
torch.testing.assert_close(out.float(), work(a.float(), b.float(), c.float()), atol=0.05, rtol=0.01)
print("the same as without")
"""


def test_products_by_templates(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, "-m", "tileprobe", "exec", "--target", "sim:a100", str(script)]
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    assert "the same as without" in run.stdout
