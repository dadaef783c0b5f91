"""Scopes, marks and values in kernels: what they show with profiling, and that they are nothing without."""

import linecache
import re

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl
import triton.profiler.language as pl
from xdsl.parser import Parser

import tileprobe
import tileprobe.language as tp
from tileprobe.ir.registry import context
from tileprobe.ir.scopes import _scopes
from tileprobe.language import scope
from tileprobe.passes import pipeline

OPTIONS = {"alternate": False, "min_cost": 0.0, "tools": ("regions",)}


@triton.jit
def scoped_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(n):
        with scope("softmax"):
            v = tl.load(x + at)
            e = tl.exp(v - tl.max(v, axis=0))
            p = e / tl.sum(e, axis=0)
        with tileprobe.language.scope("sums"):
            total += tl.cumsum(p, axis=0)
        tp.mark("half")
        tp.value("count", i * 10)
        tp.value("first", 0.5)
    tl.store(out + at, total)


@triton.jit
def unsigned_kernel(x, out):
    word = tl.load(x)
    tp.value("word", word)
    tp.value("large", word.to(tl.uint64) << 32)
    tp.value("flag", word > 5)
    tl.store(out, word)


def test_values_are_what_they_were_in_the_kernel():
    word, out = tileprobe.array(np.array([3_000_000_000], np.uint32)), tileprobe.array(np.zeros(1, np.uint32))
    with tileprobe.profile(**OPTIONS) as session:
        unsigned_kernel[(1,)](word, out)
    frame = session.trace.to_polars()
    found = {name: value for name, value in frame.select("name", "value").rows() if value is not None}
    assert found == {"word": 3e9, "large": 3e9 * 2**32, "flag": 1.0}


@triton.jit
def plain_kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        v = tl.load(x + at)
        e = tl.exp(v - tl.max(v, axis=0))
        p = e / tl.sum(e, axis=0)
        total += tl.cumsum(p, axis=0)
    tl.store(out + at, total)


@triton.jit
def proton_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    with pl.scope("inner"):
        top = tl.max(tl.load(x + at), axis=0)
    pl.enter_scope("outer")
    value = tl.exp(tl.load(x + at) - top)
    tl.store(out + at, value)
    pl.exit_scope("outer")


@pytest.fixture(scope="module")
def session():
    with tileprobe.profile(**OPTIONS) as found:
        K.launch(scoped_kernel, 2, 3)
    return found


def test_scopes_are_regions_around_their_stages(session):
    regions = {region.id: region for region in session.trace.regions}
    scopes = {region.name: region for region in regions.values() if region.kind == "scope"}
    assert set(scopes) == {"softmax", "sums"}
    inside = [r.kind for r in regions.values() if r.parent == scopes["softmax"].id]
    assert any("exp" in kind for kind in inside)
    assert not any("scan" in kind for kind in inside)
    frame = session.trace.to_polars()
    assert frame.filter(frame["name"] == "softmax").height == 2 * 3


def test_marks_and_values(session):
    frame = session.trace.to_polars()
    marks = frame.filter(frame["name"] == "half")
    assert marks["kind"].unique().to_list() == ["mark"]
    assert marks.height == 6
    counts = frame.filter((frame["name"] == "count") & (frame["program"] == 1)).sort("iteration")
    assert counts["value"].to_list() == [0.0, 10.0, 20.0]
    assert set(frame.filter(frame["name"] == "first")["value"].to_list()) == {0.5}


def test_without_profiling_they_add_nothing():
    """The same object code as a kernel that never mentions them."""
    x, out = K.arrays(2)
    kernels = [kernel[(2,)](x, out, 3, BLOCK=K.BLOCK) for kernel in (scoped_kernel, plain_kernel)]
    texts = [k.asm["llir"].replace("scoped_kernel", "plain_kernel") for k in kernels]
    texts = [
        re.sub(r"^ *; from .*\n", "", text, flags=re.MULTILINE) for text in texts
    ]  # which line code came from
    assert texts[0] == texts[1]
    np.testing.assert_array_equal(K.launch(scoped_kernel, 2, 3), K.launch(plain_kernel, 2, 3))


def test_scopes_of_proton():
    with tileprobe.profile(**OPTIONS) as session:
        K.launch(proton_kernel, 2)
    assert {r.name for r in session.trace.regions if r.kind == "scope"} == {"inner", "outer"}


def test_a_value_is_a_scalar():
    @triton.jit
    def wrong_kernel(x, out, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        tp.value("tile", at)
        tl.store(out + at, tl.load(x + at))

    with tileprobe.profile(**OPTIONS) as session:
        K.launch(wrong_kernel, 1)
    assert "takes a scalar" in session.problems["wrong_kernel"]


def test_scopes_in_source_text():
    text = (
        "def f():\n"
        "    with scope('a'), open('b'):\n"
        "        x = 1\n"
        "        with tp.scope('b'):\n"
        "            y = 2\n"
        "    enter_scope('c')\n"
        "    z = 3\n"
        "    exit_scope('c')\n"
        "    with scope(name):\n"
        "        pass\n"
    )
    assert [str(scope) for scope in _scopes(text)] == ["a@3-5", "b@5-5", "c@7-7"]
    assert _scopes("with scope('a'") == ()


def test_a_scope_of_another_file_takes_none_of_these_lines():
    """Line numbers mean something in their own file only."""
    text = (
        'func.func @k() {\n"my.stage"() {kinds = "load", lines = "%s:9"} : () -> ()\n'
        '"my.stage"() {kinds = "load", lines = "%s:9"} : () -> ()\nfunc.return\n}'
    )
    other = "".join(f"# {n}\n" for n in range(1, 8)) + 'with scope("theirs"):\n    pass\n'
    linecache.cache["other.py"] = (len(other), None, other.splitlines(keepends=True), "other.py")
    try:
        module = Parser(context(), text % ("mine.py", "other.py")).parse_module()
        pipeline("select").passes[0].apply(context(), module)
    finally:
        del linecache.cache["other.py"]
    marked = [op.attributes.get("probe.scopes") for op in module.walk() if "kinds" in op.attributes]
    assert marked[0] is None
    assert marked[1].data[0].data == "theirs"
