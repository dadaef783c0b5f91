"""Scopes, marks and values in kernels: what they show with profiling, and that they are nothing without."""

import numpy as np
import pytest
import session_kernels as K
import triton
import triton.language as tl
import triton.profiler.language as pl

import tileprobe
import tileprobe.language as tp
from tileprobe.ir.scopes import _scopes
from tileprobe.language import scope

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
