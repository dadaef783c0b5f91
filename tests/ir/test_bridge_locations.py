"""Ops know the line they came from, through inlined calls and library functions."""

import inspect

import kernels_attention
import pytest
import triton
import triton.language as tl
from bridge_stages import Case, Compilation
from bridge_text import module_of, ops_named
from xdsl.dialects.builtin import FusedLoc, NoneAttr

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import op_name
from tileprobe.ir.bridge import Loc, call_chain, source_location, to_xdsl
from tileprobe.ir.locations import LocationReader, location_text


@triton.jit
def _helper(value):
    return tl.sum(value, 0)  # library call in an inlined function


@triton.jit
def located(x, out, N: tl.constexpr):
    loaded = tl.load(x + tl.arange(0, N))
    total = _helper(loaded)
    tl.store(out, total)


def _line(fn, text):
    """The number of the line of `fn`'s source that holds `text`."""
    lines, start = inspect.getsourcelines(fn.fn)
    return next(start + i for i, line in enumerate(lines) if text in line)


@pytest.fixture(scope="module")
def located_module():
    compilation = Compilation(Case(located, "*fp32 *fp32", {"N": 128}), "sm80")
    return to_xdsl(compilation.run(compilation.module, "ttir", compilation.metadata))


def test_plain_line_and_variable(located_module):
    (load,) = ops_named(located_module, "tt.load")
    loc = source_location(load)
    assert (loc.file, loc.line, loc.name, loc.callers) == (__file__, _line(located, "tl.load"), "loaded", ())
    (store,) = ops_named(located_module, "tt.store")
    assert source_location(store).line == _line(located, "tl.store")


def test_library_frames_are_passed_over_and_callers_kept(located_module):
    (reduction,) = ops_named(located_module, "tt.reduce")
    loc = source_location(reduction)
    assert (loc.file, loc.line) == (__file__, _line(_helper, "tl.sum"))
    assert [(caller.line, caller.name) for caller in loc.callers] == [(_line(located, "_helper("), "total")]
    chain = call_chain(reduction)
    assert chain[0].file.endswith("standard.py")
    assert [frame.line for frame in chain[-2:]] == [loc.line, loc.callers[0].line]


def test_arguments_have_locations(located_module):
    (function,) = ops_named(located_module, "tt.func")
    x, _out = function.regions[0].blocks[0].args
    assert source_location(x).name == "x"


def test_every_op_of_an_attention_kernel_in_ttgir_is_in_its_file():
    case = kernels_attention.CASES[0]
    compilation = Compilation(case, "sm90")
    ttir = compilation.run(compilation.module, "ttir", compilation.metadata)
    module = to_xdsl(compilation.run(ttir, "ttgir", compilation.metadata))
    found = {op_name(op): source_location(op) for op in module.walk()}
    for name in ("ttng.warp_group_dot", "scf.for", "tt.store", "math.exp2", "ttg.async_copy_global_to_local"):
        assert found[name].file == kernels_attention.__file__


def test_unknown_location_is_none():
    (op,) = ops_named(to_xdsl(module_of("%0 = arith.constant 1 : i32 loc(unknown)")), "arith.constant")
    assert source_location(op) is None
    assert call_chain(op) == ()


@pytest.mark.parametrize(
    "text",
    [
        "unknown",
        '"a b.py":3:4',
        '"x"("k.py":1:2)',
        '"only a name"',
        'callsite("f.py":1:2 at callsite("g.py":3:4 at "h"("h.py":5:6)))',
        'fused["a.py":1:1, unknown, "b"("b.py":2:2)]',
        r'"back\\slash \22quote\22 \C3\BC.py":1:0',
    ],
)
def test_reading_and_writing_agree(text):
    assert location_text(LocationReader({}).read(text)) == text


def test_aliases_are_followed():
    reader = LocationReader({"#loc": '"k.py":1:2', "#loc1": '"x"(#loc)', "#loc2": "callsite(#loc1 at #loc)"})
    assert location_text(reader.read("#loc2")) == 'callsite("x"("k.py":1:2) at "k.py":1:2)'


def test_fused_location_gives_its_first_known_part():
    (op,) = ops_named(to_xdsl(module_of("%0 = arith.constant 1 : i32")), "arith.constant")
    reader = LocationReader({})
    op.location = FusedLoc((reader.read("unknown"), reader.read('"x"("k.py":1:2)')), NoneAttr())
    assert source_location(op) == Loc("k.py", 1, 2, "x")


@pytest.mark.parametrize(
    "text", ["nowhere", '"k.py":1', "callsite(unknown)", 'fused<"meta">[unknown]', "#loc9", ""]
)
def test_bad_location(text):
    with pytest.raises(TileProbeError, match="source location"):
        LocationReader({}).read(text)
