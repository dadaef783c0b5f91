"""`tileprobe exec --check` on a simulated GPU: a race is an error with both lines; without it the program goes on."""

import subprocess
import sys

SCRIPT = """import numpy as np, tileprobe, triton, triton.language as tl

@triton.jit
def crowd(out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.program_id(0) + i)

out = tileprobe.array(np.zeros(64, np.int32))
crowd[(2,)](out, 64)
print("the end")
"""


def run(folder, *options):
    (folder / "crowd.py").write_text(SCRIPT)
    command = [
        sys.executable,
        "-m",
        "tileprobe",
        "exec",
        "--no-cuda",
        "--target",
        "sim:a100",
        "--threads",
        "1",
    ]
    return subprocess.run(
        [*command, *options, "crowd.py"], cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_option(tmp_path):
    strict, plain = run(tmp_path, "--check"), run(tmp_path)
    assert strict.returncode == 1
    assert "the end" not in strict.stdout
    assert strict.stderr.count("crowd.py:6 (`STG") == 2
    assert plain.returncode == 0
    assert "the end" in plain.stdout
    assert "the checks of memory found 1 fault" in plain.stderr
