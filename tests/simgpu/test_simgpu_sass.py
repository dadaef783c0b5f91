"""`tileprobe inspect --target sim:h100 --sass`: what each instruction of a script's kernels took."""

import io
import json
import os
import subprocess
import sys

import pytest

from tileprobe.cli import main
from tileprobe.views.sass_listing import control_text, print_kernel
from tileprobe.views.screen import Screen

SCRIPT = """
import sys
import numpy as np
import tileprobe
import triton
import triton.language as tl

@triton.jit
def chain(x, out, n, STEPS: tl.constexpr):
    i = tl.arange(0, 32)
    y = tl.load(x + i)
    for _ in range(n):
        y = tl.sqrt(y)
    tl.store(out + i, y)

@triton.jit
def unused(out):
    tl.store(out, 1)

x, out = (tileprobe.array(np.full(32, 4, np.float32)) for _ in range(2))
for _ in range(2):
    chain[(3,)](x, out, 100, STEPS=3, num_warps=1)
unused[(1,)](out)
print("said by the script")
assert out.numpy()[1] > 0
sys.exit(int(sys.argv[1]) if sys.argv[1:] else 0)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("sass") / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def inspected(capsys, *words):
    code = main(["inspect", "--target", "sim:h100", "--sass", *words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture(scope="module")
def kernel(script):
    """The JSON of the first kernel."""
    import contextlib

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["inspect", "--target", "sim:h100", "--sass", "--json", script]) == 0
    found = json.loads(out.getvalue())["kernels"]
    assert [each["name"] for each in found] == ["chain", "unused"]
    return found[0]


def source_line(kernel, text):
    return next(line for line in kernel["lines"] if text in line["text"])


def test_issues_and_stalls_are_told_for_each_instruction(kernel):
    ops = kernel["instructions"]
    assert kernel["launches"] == 2 == len(kernel["cycles"]) and kernel["target"] == "sim:h100"
    assert sum(op["issued"] for op in ops) == kernel["issued"]
    assert kernel["issue_slots"] == 4 * 132 * sum(kernel["cycles"])
    assert [op["address"] for op in ops] == list(range(0, 16 * len(ops), 16))
    assert sum(op["issue_share"] for op in ops) == pytest.approx(1)
    assert sum(op["time_share"] for op in ops) == pytest.approx(1)
    (load,) = [op for op in ops if "LDG" in op["text"]]
    assert load["issued"] == 6  # a warp in each of three programs, twice
    roots = [op for op in ops if "MUFU.RSQ" in op["text"] or "MUFU.SQRT" in op["text"]]
    assert sum(op["issued"] for op in roots) >= 600
    for reason, lost in kernel["stalls"].items():
        assert sum(op["stalls"].get(reason, 0) for op in ops) == lost
    assert list(kernel["stalls"].values()) == sorted(kernel["stalls"].values(), reverse=True)


def test_warps_wait_where_the_barrier_of_a_load_is_waited_for(kernel):
    ops = kernel["instructions"]
    (at,) = [n for n, op in enumerate(ops) if "LDG" in op["text"]]
    barrier = ops[at]["control"]["write_barrier"]
    later = next(op for op in ops[at + 1 :] if barrier in op["control"]["wait_barriers"])
    assert later["stalls"]["long_scoreboard"] > 0


def test_lines_are_summed_with_their_source(kernel):
    shares = [line["time_share"] for line in kernel["lines"]]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1)
    assert "y = tl.sqrt(y)" in kernel["lines"][0]["text"]
    load = source_line(kernel, "tl.load")
    same = [op for op in kernel["instructions"] if op["line"] == load["line"]]
    assert load["issued"] == sum(op["issued"] for op in same)


def test_the_listing_has_all_of_it(capsys, script, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # a file, whose width nobody says
    code, out, err = inspected(capsys, "--kernel", "ch*", script)
    assert code == 0 and "said by the script" in err and "said by the script" not in out
    assert "chain (STEPS=3) on sim:h100: 2 launches of 3 programs of 1 warp" in out
    for word in (
        "issue slots",
        "occupancy",
        "limited by",
        "bytes of DRAM read",
        "bank conflicts",
        "control codes",
    ):
        assert word in out
    assert "script.py:13  y = tl.sqrt(y)" in out and "unused" not in out


def shown(kernel, width, terminal=True, **more):
    file = io.StringIO()
    print_kernel(kernel, Screen(file, width, force_terminal=terminal, **more))
    return file.getvalue()


@pytest.mark.parametrize("width", [20, 56, 90, 200])
def test_terminals_of_any_width_hold_their_lines(kernel, width):
    text = shown(kernel, width, no_color=True, color_system=None)
    assert max(map(len, text.splitlines())) <= width
    assert ("B------" in text) == (width >= 110)
    assert ("share" in text.split("address")[1].splitlines()[0]) == (width >= 76)


def test_pipes_get_whole_lines_and_old_terminals_plain_ones(kernel):
    long = max(kernel["instructions"], key=lambda op: len(op["text"]))
    assert long["text"] in shown(kernel, 30, terminal=False)
    assert shown(kernel, 120, plain=True, color_system=None).isascii()


def test_hot_instructions_are_marked_and_coloured_unless_nobody_wants_that(kernel, script):
    first, *rest = kernel["instructions"]
    hot = {
        **kernel,
        "instructions": [{**first, "time_share": 0.4}, *({**op, "time_share": 0.01} for op in rest)],
    }
    (marked,) = [line for line in shown(hot, 120, terminal=False).splitlines() if line.startswith(">")]
    assert marked.endswith(first["text"])
    assert "\x1b[31m>" in shown(hot, 120, color_system="standard")
    command = [sys.executable, "-m", "tileprobe", "inspect", "--target", "sim:h100", "--sass", script]
    run = subprocess.run(
        command, env={**os.environ, "NO_COLOR": "1", "LC_ALL": "C"}, capture_output=True, check=True
    )
    assert run.stdout.isascii() and b"\x1b" not in run.stdout


def test_control_codes_are_written_as_others_write_them():
    control = {
        "stall": 4,
        "yield": True,
        "write_barrier": 2,
        "read_barrier": None,
        "wait_barriers": [0, 5],
        "reuse": 0,
    }
    assert control_text(control) == "B0----5:R-:W2:Y:S04"


def test_a_script_that_fails_has_its_launches_shown_and_its_status(capsys, script):
    code, out, _ = inspected(capsys, "--kernel", "chain", script, "7")
    assert code == 7 and "chain (STEPS=3) on sim:h100" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "cuda:90", "--sass", "SCRIPT"], "--target sim:h100 --sass script.py"),
        (
            ["--target", "sim:h100", "--sass", "--level", "ttir", "SCRIPT"],
            "--target sim:h100 --sass script.py",
        ),
        (["--target", "sim:h100", "--sass", "trace.parquet"], "--target sim:h100 --sass script.py"),
        (["--target", "sim:h100", "--sass", "--kernel", "x*", "SCRIPT"], "'x*'; there are: chain, unused"),
    ],
)
def test_mistakes_are_one_message(capsys, script, words, said):
    assert main(["inspect", *(script if word == "SCRIPT" else word for word in words)]) != 0
    assert said in capsys.readouterr().err


def test_without_sass_it_is_the_static_evidence_of_the_gpu(capsys, script):
    assert main(["inspect", "--target", "sim:a100", "--kernel", "unused", "--json", script]) == 0
    (found,) = json.loads(capsys.readouterr().out)["kernels"]
    assert found["target"] == "cuda:80" and found["plain"]["registers"] > 0


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_names_and_sources_that_are_not_ascii_are_shown_as_they_are(tmp_path, encoding):
    """In the encoding that the source names, with its folder, name and comments."""
    path = tmp_path / "größe" / "schön_é.py"
    path.parent.mkdir()
    source = f"# -*- coding: {encoding} -*-\n" + SCRIPT.replace(
        "y = tl.sqrt(y)", "y = tl.sqrt(y)  # größer: é"
    )
    path.write_text(source, encoding=encoding)
    words = [sys.executable, "-m", "tileprobe", "inspect", "--target", "sim:h100", "--sass", str(path)]
    environment = os.environ | {"PYTHONIOENCODING": "utf-8", "COLUMNS": "200"}
    done = subprocess.run(
        words, capture_output=True, encoding="utf-8", timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    line = source.splitlines().index("        y = tl.sqrt(y)  # größer: é") + 1
    assert f"schön_é.py:{line}  y = tl.sqrt(y)  # größer: é" in done.stdout
