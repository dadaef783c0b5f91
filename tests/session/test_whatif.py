"""Launches that are run again, delays on the CPU, and results that are held against each other."""

import io
import json
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import triton
import triton.language as tl
from rich.console import Console

import tileprobe
from tileprobe.cli import main
from tileprobe.cli.advise import _show as show_advice
from tileprobe.ir.mode import with_pipeline
from tileprobe.session.advising import Advice, Outcome, Trying, advise
from tileprobe.session.evidence import Evidence
from tileprobe.session.experiments import experiments
from tileprobe.session.looks import PLAN
from tileprobe.session.relaunching import relaunching, taken_ns
from tileprobe.targets.catalog import find
from tileprobe.targets.cpu.codegen import clock
from tileprobe.tools.plan import Plan

SCRIPT = """
import numpy as np, tileprobe, triton, triton.language as tl

@triton.jit
def add(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)

x = tileprobe.array(np.zeros(4096, np.float32))
for _ in range(3):
    add[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](x, 4096, BLOCK=512)
assert (x.numpy() == 3).all()
"""


@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(x + i, mask=i < n)
    tl.store(x + i, a * 2, mask=i < n)
    tl.store(y + i, tl.sum(a, 0))


@triton.jit
def whole(x, y, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i) * 2)


@triton.jit
def one_page(x, PAGE: tl.constexpr):
    i = PAGE * 1024 + tl.arange(0, 1024)
    tl.store(x + i, tl.load(x + i) + 1)


def launched(question):
    x, y = (tileprobe.array(np.ones(1024, np.float32)) for _ in range(2))
    with tileprobe.use("cpu", threads=1), relaunching(question):
        for _ in range(3):
            twice[(4,)](x, y, 1024, BLOCK=256)
    assert (x.numpy() == 8).all()
    return y.numpy()


def test_the_program_does_not_notice_that_its_launches_are_run_again():
    seen = []

    def question(one):
        seen.append(one)
        assert one.constants == {"BLOCK": 256} and one.name == "twice"
        for _ in range(3):
            one.run()
        assert one.tensors()[0].values[0] == 8
        one.restore()
        assert one.tensors()[0].values[0] == 1
        one.run()  # what is left in memory is put right

    launched(question)
    assert len(seen) == 1  # the others do the same work


def test_only_what_runs_write_is_put_back_and_what_a_new_way_writes_too():
    values = np.arange(3 * 1024, dtype=np.float32)  # three pages
    looked = []

    def question(one):
        piece, held = one._memory[0], one._held[0].copy()
        one.run()
        one.restore()
        assert (piece == held).all()
        looked.append(one._touched[0].tolist())
        piece[4096] += 1  # no launch does that: nobody looks at a page that none writes
        one.run()
        one.restore()
        assert piece[4096] != held[4096] and (piece[:4096] == held[:4096]).all()
        one.run(PAGE=2)
        one.restore()
        looked.append(one._touched[0].tolist())
        assert (piece[2 * 4096 :] == held[2 * 4096 :]).all()

    x = tileprobe.array(values.copy())
    with tileprobe.use("cpu", threads=1), relaunching(question):
        one_page[(1,)](x, PAGE=0)
    assert looked == [[True, False, False], [True, True, True]]
    assert (x.numpy()[:1024] == values[:1024] + 1).all()  # all that the question changed is put right
    assert (x.numpy()[1024:] == values[1024:]).all()


def test_regions_between_fences_are_measured_alone(monkeypatch, tmp_path):
    """Only with them is there a fence, in front of each clock; without records the code is as it was."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    texts = {}

    def question(one):
        for fenced in (False, True):
            with tileprobe.profile(plan=Plan(loops=True, fenced=fenced), programs="all") as session:
                one.run()
            texts[fenced] = session.trace.kernels[0].ir
            one.restore()

    launched(question)
    assert "record.fence" in texts[True]["record"] and "record.fence" not in texts[False]["record"]
    if clock.is_x86():
        assert texts[True]["llir"].count("lfence") >= 2 and "lfence" not in texts[False]["llir"]


def test_a_delay_delays_and_none_leaves_the_code_as_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))  # all is compiled here and now
    target = find("cpu")[0]
    times, codes = {}, {}

    def mode(ticks, region="#1"):
        passes = PLAN.pipeline(target.structure, level="probe")
        return with_pipeline(
            "", f'{passes},delay{{region="{region}" ticks={ticks} structure={target.structure}}}'
        )

    def question(one):
        for ticks in (0, 2_000_000):
            delayed = partial(one.run, mode(ticks))
            times[ticks] = min(taken_ns(delayed, target) for _ in range(3))
            one.restore()
        for name, chosen in (
            ("plain", None),
            ("nothing", mode(9, "no such region")),
            ("some", mode(9, "")),
            ("one", mode(9)),
        ):
            codes[name] = one.run(chosen).asm
            one.restore()

    launched(question)
    if clock.is_x86():  # it begins when what came before is done, and there is one for each delay
        text = codes["one"]["llir"]
        assert text.count("lfence") == 1 and text.index("lfence") < text.index("delayed")
        assert "lfence" not in codes["plain"]["llir"] + codes["some"]["llir"]
    ns = 2_000_000 / target.clock.hz() * 1e9
    assert times[2_000_000] - times[0] > 4 * ns * 0.9  # four programs, one core; a clock cannot run fast
    kinds = [kind for kind in codes["plain"] if kind in ("obj", "tile")]
    assert len(kinds) == 2
    for kind in kinds:
        assert codes["plain"][kind] == codes["nothing"][kind] == codes["some"][kind]


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "adds.py"
    path.write_text(SCRIPT)
    return str(path)


def test_the_commands_give_json(script, tmp_path, capsys):
    assert (
        main(["whatif", "--seconds", "0.2", "--threads", "1", "--json", str(tmp_path / "w.json"), script])
        == 0
    )
    (kernel,) = json.loads((tmp_path / "w.json").read_text())["kernels"]
    assert kernel["kernel"] == "add" and kernel["took_ns"] > 0
    assert kernel["cores"] >= 1 and kernel["regions"]
    for row in kernel["regions"]:
        slope, saved = row["slope"], row["saved"]
        assert row["rounds"] >= 8 and 0 <= row["share"] <= 1
        assert 0 <= slope["low"] <= slope["value"] <= slope["high"] <= 1 or not slope["told"]
        assert 0 <= saved["low"] <= saved["value"] <= saved["high"] <= row["most"] <= 1
    assert (
        main(["advise", "--seconds", "0.2", "--threads", "1", "--json", str(tmp_path / "a.json"), script])
        == 0
    )
    (kernel,) = json.loads((tmp_path / "a.json").read_text())["kernels"]
    tried = [row["changes"] for row in kernel["outcomes"]] + [row["changes"] for row in kernel["untried"]]
    assert {"BLOCK": 256} in tried and {"BLOCK": 1024} in tried
    capsys.readouterr()


def test_a_grid_of_no_programs_is_not_asked_about(tmp_path, capsys):
    path = tmp_path / "none.py"
    path.write_text(SCRIPT.split("for _ in")[0] + "add[(0,)](x, 4096, BLOCK=512)\n")
    assert main(["whatif", "--seconds", "0.1", str(path)]) == 2
    told = capsys.readouterr().err
    assert "no region" not in told and "no Triton kernel that could be asked about" in told


def test_json_on_the_standard_output_stands_alone_and_files_are_looked_at_first(tmp_path):
    path = tmp_path / "prints.py"
    path.write_text(
        SCRIPT + "print('a line of the program')\nimport os; os.chdir('/')\nraise SystemExit(3)\n"
    )
    words = [sys.executable, "-m", "tileprobe", "whatif", "--seconds", "0.1", "--threads", "1"]
    ended = subprocess.run([*words, "--json", "-", str(path)], capture_output=True, text=True)
    assert ended.returncode == 3 and json.loads(ended.stdout)["kernels"][0]["kernel"] == "add"
    assert "a line of the program" in ended.stderr
    ended = subprocess.run(
        [*words, "--json", "w.json", str(path)], capture_output=True, text=True, cwd=tmp_path
    )
    assert ended.returncode == 3 and json.loads((tmp_path / "w.json").read_text())["kernels"]
    missing = str(tmp_path / "no" / "w.json")
    ended = subprocess.run([*words, "--json", missing, str(path)], capture_output=True, text=True)
    assert ended.returncode == 2 and "cannot write" in ended.stderr and "a line" not in ended.stdout


def test_mistakes_are_said(script, capsys):
    assert main(["whatif", "--target", "cuda:90", script]) == 2
    assert "on cpu and on simulated GPUs" in capsys.readouterr().err
    assert main(["advise", "--seconds", "0", script]) == 2
    assert "--seconds takes a number above 0" in capsys.readouterr().err
    assert main(["whatif", "--region", "nothing like it", "--seconds", "0.1", script]) == 2
    told = capsys.readouterr().err
    assert "no region called 'nothing like it'" in told and "launched no Triton kernel" not in told


def test_what_cannot_be_asked_is_said_and_the_program_goes_on_as_it_would(tmp_path, capsys):
    script = tmp_path / "broken.py"
    script.write_text(
        "import numpy as np, tileprobe, triton\nfrom triton import language as tl\n"
        "@triton.jit\ndef broken(x):\n    tl.store(x, nothing)\n"
        "x = tileprobe.array(np.ones(4, np.float32))\n"
        "try:\n    broken[(1,)](x)\nexcept Exception:\n    raise SystemExit(3)\n"
    )
    for command in ("whatif", "advise"):
        assert main([command, "--seconds", "0.1", str(script)]) == 3  # the program's own
        told = capsys.readouterr().err
        assert "broken cannot be asked about: CompilationError" in told and "Traceback" not in told
        assert "launched no Triton kernel" not in told
    assert main(["whatif", "--scale", "0", str(script)]) == 2
    assert "--scale takes a number above 0" in capsys.readouterr().err
    assert main(["advise", "--most", "0", str(script)]) == 2
    assert "--most takes a number of kernels" in capsys.readouterr().err


def test_a_block_that_reaches_beyond_its_tensors_is_told_and_touches_nothing():
    x, y = (tileprobe.array(np.ones(1024, np.float32)) for _ in range(2))
    found = []

    def question(one):
        found.append(advise(one, find("cpu")[0], 300.0, lambda _: None))

    with tileprobe.use("cpu", threads=1), relaunching(question):
        whole[(4,)](x, y, BLOCK=256)
    (larger,) = [row for row in found[0].outcomes if row.changes == {"BLOCK": 512}]
    assert larger.verdict == "cannot run" and "whole" in larger.why
    (smaller,) = [row for row in found[0].outcomes if row.changes == {"BLOCK": 128}]
    assert smaller.verdict == "changes results" and "y differs" in smaller.why
    assert (y.numpy() == 2).all()


@pytest.mark.parametrize("width", [80, 120])
def test_a_message_of_many_lines_is_one_row_of_the_table_and_whole_in_the_data(width):
    why = (
        "a load at line 7 reaches [bold]512 bytes[/bold] beyond x, "
        + "which has 256 of them " * 9
        + "\nas it is\nhere"
    )
    rows = [
        Outcome({"BLOCK": 512}, "a block of another size", "cannot run", why=why),
        Outcome({"BLOCK": 128}, "a block of another size", "helps", 90.0, 0.1, 0.02),
    ]
    screen = io.StringIO()
    show_advice(Console(file=screen, width=width, color_system=None), [Advice("add", 100.0, rows, [], [])])
    lines = [line for line in screen.getvalue().splitlines() if line.strip()]
    assert len(lines) == 4 and max(map(len, lines)) <= width
    assert lines[2].startswith("BLOCK=512  cannot run") and "a load at line 7" in lines[2]
    assert lines[3].split()[:5] == ["BLOCK=128", "helps", "10.0", "%", "±2.0"]


def test_what_only_an_edit_can_change_has_its_line_and_numbers():
    found = []

    def question(one):
        found.append(advise(one, find("cpu")[0], 0.01, lambda _: None))

    launched(question)
    edits = json.loads(json.dumps(found[0].edits))
    top = next(edit for edit in edits if "critical path is" in edit["evidence"])
    assert top["tool"] == "critical-path" and top["region"]
    assert top["numbers"]["region"] and 0 < top["numbers"]["share"] <= 1
    file, _, line = top["line"].rpartition(":")
    first = twice.starting_line_number
    assert file.endswith("test_whatif.py") and first <= int(line) <= first + 6
    assert all({"tool", "cause", "evidence", "region", "line", "numbers"} == set(edit) for edit in edits)


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


def test_stores_past_the_caches_are_tried_where_tensors_do_not_fit_into_them():
    x, y = tileprobe.array(np.arange(5000, dtype=np.float32)), tileprobe.array(np.zeros(5000, np.float32))
    seen = []

    def question(one):
        past = [e for e in experiments(one, False, Evidence(), 40_000) if "what is stored" in e.changes]
        assert [e.how for e in past] == ['cache_modifier=".cs" in tl.store']
        small = experiments(one, False, Evidence(), 40_001)
        assert not any("what is stored" in e.changes for e in (*small, *experiments(one, True, Evidence())))
        assert find("cpu")[0].cache_bytes > 100_000
        outcome = Trying(one, find("cpu")[0]).outcome(past[0], 0.2)
        seen.append(outcome.verdict)
        codes = [one.run(edit=",".join(edits)).asm["llir"] for edits in ((), past[0].edits)]
        seen.append(["nontemporal" in code for code in codes])
        seen.append(["sfence" in code for code in codes])

    with tileprobe.use("cpu", threads=1), relaunching(question):
        scaled[(10,)](x, y, 5000, BLOCK=512)
    verdict, stores, fences = seen
    assert verdict in ("helps", "does not help", "cannot be told") and stores == [False, True]
    assert fences == [False, clock.is_x86()]
    assert (y.numpy() == x.numpy() * 2).all()
