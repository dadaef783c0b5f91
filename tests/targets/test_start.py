"""What a small script need not wait for: torch, where it does not import it, and a hash of Triton's library."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tileprobe.targets import triton_key

SCRIPT = """
import sys
import numpy as np, tileprobe, triton, triton.language as tl

@triton.jit
def double(x_ptr):
    i = tl.arange(0, 64)
    tl.store(x_ptr + i, 2 * tl.load(x_ptr + i))

x = np.ones(64, np.float32)
double[(1,)](tileprobe.array(x))
assert (x == 2).all()
print("torch", "torch" in sys.modules)
from triton.runtime import cache
print("key", hasattr(cache.triton_key, "_tileprobe"))
"""


@pytest.mark.parametrize("command", ["exec", "run"])
@pytest.mark.parametrize("target", ["cpu", "sim:a100"])
def test_torch_is_not_imported_for_a_script_that_does_not(command, target, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    words = [sys.executable, "-m", "tileprobe", command, "--target", target, str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch False" in done.stdout
    assert "key True" in done.stdout


def test_the_map_comes_with_torch_and_goes_with_the_block(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, tileprobe\n"
        "with tileprobe.use('sim:a100', cuda=True):\n"
        "    assert 'torch' not in sys.modules\n"
        "    import torch\n"
        "    assert torch.ones(2, device='cuda').is_cuda\n"
        "assert not torch.cuda.is_available()\n"
        "print('well')\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "well\n", done.stderr


def test_a_map_that_torch_came_too_late_for_leaves_nothing(tmp_path):
    pytest.importorskip("torch")
    path = tmp_path / "script.py"
    path.write_text(
        "import tileprobe\n"
        "with tileprobe.use('cpu', cuda=True): pass\n"
        "import torch\n"
        "print(torch.cuda.is_available())\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout == "False\n", done.stderr


def test_tritons_key_is_computed_once_for_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    asked = []

    def compute():
        asked.append(1)
        return "a key"

    assert [triton_key._remembered(compute) for _ in range(2)] == ["a key"] * 2
    assert len(asked) == 1
    monkeypatch.setattr(triton_key, "_state", lambda: "other files")
    triton_key._remembered(compute)
    assert len(asked) == 2
