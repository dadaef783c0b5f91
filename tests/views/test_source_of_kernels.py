"""Where the time of a kernel is shown: fused lines by what they cost, loops, functions that it calls."""

import importlib.util
import inspect

import numpy as np
import pytest
import report_helpers
import report_kernels as kernels
from report_kernels import BLOCK

import tileprobe
from tileprobe.tools.source import function_times, line_times
from tileprobe.trace import Trace

ALL = {"alternate": False, "programs": "all", "tools": ("regions", "source")}


def profiled(kernel, *extra, programs=2, **options):
    x = np.linspace(0.5, 1.0, programs * BLOCK, dtype=np.float32)
    a, b = tileprobe.array(x), tileprobe.array(np.zeros_like(x))
    with tileprobe.profile(**{**ALL, **options}) as session:
        kernel[(programs,)](a, b, *extra, BLOCK=BLOCK)
    return session


def lines(session):
    """Share of each line of the kernel, by its text."""
    frame = line_times(session.trace, session.trace.kernels[0])
    found = {}
    for text, share in frame.select("text", "share").iter_rows():
        found[text.strip()] = found.get(text.strip(), 0.0) + share
    return found


def number(module, text):
    return next(n for n, line in enumerate(inspect.getsource(module).splitlines(), 1) if text in line)


def starting(shares, text):
    return next(share for line, share in shares.items() if line.startswith(text))


def test_a_fused_stage_is_weighed_by_what_its_operations_cost():
    shares = lines(profiled(kernels.chain_kernel))
    chain, add = starting(shares, "z = tl.sin"), starting(shares, "w = v + 1.0")
    assert chain > 20 * add > 0
    assert chain > 5 * starting(shares, "v = tl.load") > 0
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-3)


def test_what_is_computed_once_a_row_is_counted_once_a_row():
    (stage,) = [r for r in profiled(kernels.rows_kernel).trace.regions if "store" in r.kind]
    cost = {}
    for part in stage.parts:
        cost[part.kind] = cost.get(part.kind, 0.0) + part.share
    assert "sin" not in stage.kind or cost["sin"] < cost["add"]


def test_time_in_functions_is_at_their_own_lines_and_at_the_call():
    session = profiled(kernels.calling_kernel, 6)
    trace = session.trace
    (kernel,) = trace.kernels
    shares = lines(session)
    call, other = starting(shares, "v = inside(v, 0.5)"), starting(shares, "v = outside(v) + i")
    assert min(call, other) > 0
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-3)
    found = {function.name: (function, frame) for function, frame in function_times(trace, kernel)}
    assert set(found) == {"inside", "outside"}
    function, frame = found["inside"]
    assert function.first_line == number(kernels, "def inside") - 1
    by_line = dict(zip(frame["text"].str.strip_chars(), frame["share"]))
    assert by_line["e = tl.exp(v - s)"] > by_line["return e / (1.0 + e)"] > 0
    assert sum(by_line.values()) == pytest.approx(call, rel=1e-3)
    function, frame = found["outside"]
    assert function.file.endswith("report_helpers.py")
    hot = frame.sort("share").row(-1, named=True)
    assert hot["line"] == number(report_helpers, "tl.log")
    assert 0 < hot["share"] < other
    called = line_times(trace, kernel).filter(called_ns=0).height
    assert called == line_times(trace, kernel).height - 2
    own = line_times(trace, kernel)["line"]  # no line of a function, though `inside` stands in the same file
    assert own.min() == kernel.first_line
    assert own.to_list() == list(range(kernel.first_line, kernel.first_line + len(own)))


def test_a_function_that_is_not_inlined_is_shown_too():
    session = profiled(kernels.noinline_kernel)
    ((function, frame),) = function_times(session.trace, session.trace.kernels[0])
    assert function.name == "apart"
    hot = frame.sort("share").row(-1, named=True)
    assert hot["text"].strip() == "tl.store(out + at, tl.log(tl.load(x + at)))"
    assert starting(lines(session), "apart(x, out, i)") == pytest.approx(hot["share"])
    assert hot["share"] > 0


def test_a_combine_function_has_its_own_lines():
    session = profiled(kernels.combining_kernel, programs=1)
    ((function, frame),) = function_times(session.trace, session.trace.kernels[0])
    assert function.name == "larger"
    shares = dict(zip(frame["text"].str.strip_chars(), frame["share"]))
    assert shares["return tl.where(best, a, b), tl.where(best, at, bt)"] > shares["best = a > b"] > 0
    assert starting(lines(session), "most, where = tl.reduce") > sum(shares.values())


def test_functions_of_other_files_are_in_the_trace(tmp_path):
    profiled(kernels.calling_kernel, 6).trace.save(tmp_path / "t.parquet")
    trace = Trace.open(tmp_path / "t.parquet")
    names = {f.name: f for f in trace.kernels[0].functions}
    assert "tl.log(v + 2.0)" in names["outside"].text


def test_what_has_no_probe_of_its_own_is_at_its_lines():
    """The stages of this kernel are too small for probes: all of its time is the loop's own."""
    session = profiled(kernels.small_kernel, 50)
    assert {r.kind for r in session.trace.regions} == {"kernel", "loop", "iteration"}
    shares = lines(session)
    assert starting(shares, "v = tl.sin(v)") > 0 < starting(shares, "for _ in range(n)")
    (iteration,) = [r for r in session.trace.regions if r.kind == "iteration"]
    assert iteration.parts[0].kind == "sin"
    assert iteration.parts[0].share > 0.9
    frame = line_times(session.trace, session.trace.kernels[0])
    assert frame.filter(frame["text"].str.contains("tl.sin"))["estimate"].all()


def test_scopes_may_be_in_functions(tmp_path):
    path = tmp_path / "scoped.py"
    path.write_text(
        "import triton\nimport triton.language as tl\nimport tileprobe.language as tp\n\n"
        "@triton.jit\ndef part(v):\n    with tp.scope('inner'):\n        v = tl.exp(tl.sin(v))\n    return v\n\n"
        "@triton.jit\ndef scoped(x, out, BLOCK: tl.constexpr):\n"
        "    at = tl.arange(0, BLOCK)\n    tl.store(out + at, part(tl.load(x + at)))\n"
    )
    spec = importlib.util.spec_from_file_location("scoped", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    session = profiled(module.scoped, programs=1)
    assert "inner" in {r.name for r in session.trace.regions if r.kind == "scope"}
