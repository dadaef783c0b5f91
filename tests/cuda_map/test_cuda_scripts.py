"""What scripts written for CUDA do works under `tileprobe exec`: each check of the `checks_*` files is a test, on the
CPU and on a simulated GPU.

They run in one process apart from this one, so that torch is left alone here.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

FILE = Path(__file__).with_name("checks.py")
NAMES = [
    node.name
    for kind in ("tensors", "device", "graphs", "training")
    for node in ast.parse(FILE.with_name(f"checks_{kind}.py").read_text()).body
    if isinstance(node, ast.FunctionDef)
]


@pytest.fixture(scope="module", params=["cpu", "sim:a100"])
def outcomes(request):
    command = [sys.executable, "-m", "tileprobe", "exec", "--target", request.param, str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", NAMES)
def test_what_cuda_scripts_do(name, outcomes):
    assert outcomes[name] == "", outcomes[name]


def test_all_checks_ran(outcomes):
    assert set(outcomes) == set(NAMES)
    assert len(NAMES) > 60
