"""The CPU target with torch not installed: the examples run on `tileprobe.array`."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cpu_harness import INTERPRETED

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(INTERPRETED, reason="the interpreter needs torch")

SCRIPT = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise ImportError(f"no module named {name}")

sys.meta_path.insert(0, Blocked())
from importlib import import_module
from examples import kernels

for name in sys.argv[1:]:
    module = import_module(f"examples.kernels.{name}")
    for case in module.CASES[:4]:
        module.check(**case)
    print(name)
assert "torch" not in sys.modules
"""


def test_examples_run_without_torch():
    from examples import kernels

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *kernels.NAMES],
        capture_output=True, text=True, cwd=ROOT, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == list(kernels.NAMES)


def test_importing_tileprobe_imports_neither_triton_nor_torch():
    code = "import sys, tileprobe; print([m for m in ('triton', 'torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_torch_and_arrays_share_a_kernel():
    torch = pytest.importorskip("torch")
    from examples.kernels.vector_add import add_kernel

    import tileprobe

    x, y = np.arange(100, dtype=np.float32), torch.arange(100, dtype=torch.float32)
    out = torch.zeros(100)
    add_kernel[(1,)](tileprobe.array(x), y, out, 100, BLOCK=128)
    assert (out.numpy() == 2 * x).all()
