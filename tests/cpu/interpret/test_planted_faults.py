"""Scheduled IR written by hand with a fault in it. Each is seen: in the orders, in the shadow of scratch, in bounds."""

import re

import numpy as np
import pytest

from tileprobe.targets.cpu.bounds import Extent
from tileprobe.targets.cpu.interpret import (
    ORDERS,
    OutOfBoundsError,
    OverlapError,
    UnwrittenError,
    check_orders,
    interpret,
)

PTR = "!tt.ptr<i32>"


def module(body, scratch=4096):
    """A kernel of one pointer `%P` to i32."""
    return f"""
builtin.module attributes {{tile.kernel = "k"}} {{
  "tt.func"() <{{sym_name = "k", function_type = ({PTR}) -> (), sym_visibility = "public"}}> ({{
  ^bb0(%P: {PTR}):
{body}
    "tt.return"() : () -> ()
  }}) {{tile.scratch = #builtin.int<{scratch}>}} : () -> ()
}}
"""


def fill(buffer, size, start=0):
    """A nest that writes `start`, `start + 1`, ... to a buffer."""
    return f"""
    tile.nest (%i) in [{size}] does "fill" from "k.py:1" {{
      %s = "arith.constant"() <{{value = {start} : i32}}> : () -> i32
      %v = "arith.addi"(%i, %s) : (i32, i32) -> i32
      tile.write %v, {buffer}[%i] : !tile.buffer<[{size}], i32>
      tile.yield
    }}"""


def out(buffer, size):
    """A nest that stores a buffer to the tensor."""
    return f"""
    tile.nest (%i) in [{size}] does "store" from "k.py:9" {{
      %v = tile.read {buffer}[%i] : !tile.buffer<[{size}], i32>
      %p = "tt.addptr"(%P, %i) : ({PTR}, i32) -> {PTR}
      "tt.store"(%p, %v) : ({PTR}, i32) -> ()
      tile.yield
    }}"""


def run(text, tensor, how=interpret, grid=(1,), **options):
    first = tensor.ctypes.data
    memory = [Extent("P", first, first + tensor.nbytes, first, 4, tensor.shape)]
    return how(text, grid, [first], memory, **options)


def numbers(count=16):
    return np.arange(count, dtype=np.int32)


def test_a_correct_module_is_the_same_in_all_orders():
    text = module(f"%A = tile.alloc at 0 : !tile.buffer<[16], i32>{fill('%A', 16, 5)}{out('%A', 16)}")
    for order in ORDERS:
        tensor = numbers()
        run(text, tensor, order=order)
        assert (tensor == numbers() + 5).all(), order
    assert run(text, numbers(), check_orders).ok


REVERSAL = """
    tile.nest (%i) in [16] does "flip" from "k.py:4" {
      %n = "arith.constant"() <{value = 15 : i32}> : () -> i32
      %j = "arith.subi"(%n, %i) : (i32, i32) -> i32
      %v = tile.read %A[%j] : !tile.buffer<[16], i32>
      tile.write %v, %A[%i] : !tile.buffer<[16], i32>
      tile.yield
    }"""


def test_a_permutation_in_place():
    text = module(f"%A = tile.alloc at 0 : !tile.buffer<[16], i32>{fill('%A', 16)}{REVERSAL}{out('%A', 16)}")
    report = run(text, numbers(), check_orders)
    assert {d.order for d in report.differences} == set(ORDERS) - {"op"}
    assert {(d.lines, d.does) for d in report.differences} == {("k.py:4", "flip")}
    whole, pointwise = numbers(), numbers()
    run(text, whole)
    run(text, pointwise, order="point")
    assert (whole == numbers()[::-1]).all()
    assert (pointwise[:8] == numbers()[:7:-1]).all()
    assert (pointwise[8:] == numbers()[8:]).all()


def test_a_permutation_in_place_through_a_view():
    text = module(
        """
    %A = tile.alloc at 0 : !tile.buffer<[16], i32>
    %B = "tile.view"(%A) : (!tile.buffer<[16], i32>) -> !tile.buffer<[4, 4], i32>"""
        + fill("%A", 16)
        + """
    tile.nest (%i, %j) in [4, 4] does "trans" from "k.py:4" {
      %v = tile.read %B[%j, %i] : !tile.buffer<[4, 4], i32>
      tile.write %v, %B[%i, %j] : !tile.buffer<[4, 4], i32>
      tile.yield
    }"""
        + out("%A", 16)
    )
    report = run(text, numbers(), check_orders)
    assert "point" in {d.order for d in report.differences}


@pytest.mark.parametrize(
    ("use", "why"),
    [(fill("%B", 16, 100), "another buffer"), ("", "given to another")],
    ids=["written", "allocated"],
)
def test_buffers_that_overlap_while_both_are_live(use, why):
    """%B begins inside %A, which is read once more."""
    text = module(
        f"""
    %A = tile.alloc at 0 : !tile.buffer<[16], i32>{fill("%A", 16)}
    %B = tile.alloc at 32 : !tile.buffer<[16], i32>{use}{out("%A", 16)}"""
    )
    with pytest.raises(UnwrittenError, match=rf"k\.py:9.*byte 32 .*{why}"):
        run(text, numbers())


def test_a_buffer_that_is_read_before_it_is_written():
    text = module(
        f"%A = tile.alloc at 0 : !tile.buffer<[16], i32>{fill('%A', 8).replace('<[8]', '<[16]')}{out('%A', 16)}"
    )
    with pytest.raises(UnwrittenError, match="byte 32"):
        run(text, numbers())


def test_what_a_program_left_in_scratch_is_not_there_for_the_next():
    text = module(
        f"""
    %A = tile.alloc at 0 : !tile.buffer<[16], i32>
    %x = "tt.get_program_id"() <{{axis = 0 : i32}}> : () -> i32
    %z = "arith.constant"() <{{value = 0 : i32}}> : () -> i32
    %first = "arith.cmpi"(%x, %z) <{{predicate = 0 : i64}}> : (i32, i32) -> i1
    "scf.if"(%first) ({{{fill("%A", 16)}
      "scf.yield"() : () -> ()
    }}, {{
    }}) : (i1) -> (){out("%A", 16)}"""
    )
    run(text, numbers())
    with pytest.raises(UnwrittenError):
        run(text, numbers(), grid=(2,))


SHIFT = f"""
    tile.nest (%i) in [16] does "shift" from "k.py:7" {{
      %p = "tt.addptr"(%P, %i) : ({PTR}, i32) -> {PTR}
      %one = "arith.constant"() <{{value = 1 : i32}}> : () -> i32
      %j = "arith.addi"(%i, %one) : (i32, i32) -> i32
      %q = "tt.addptr"(%P, %j) : ({PTR}, i32) -> {PTR}
      %v = "tt.load"(%p) : ({PTR}) -> i32
      "tt.store"(%q, %v) : ({PTR}, i32) -> ()
      tile.yield
    }}"""


def test_a_load_and_a_store_of_neighbours_in_one_nest():
    report = run(module(SHIFT), numbers(17), check_orders)
    assert {"point", "vector"} <= {d.order for d in report.differences}
    assert "P" in report.differences[0].where
    assert "k.py:7" in str(report)


def test_a_store_in_front_of_a_load():
    """The load does not vary: machine code does it before the loop, and so before the store."""
    body = f"""
    tile.nest (%i) in [16] does "store+load" from "k.py:8" {{
      %p = "tt.addptr"(%P, %i) : ({PTR}, i32) -> {PTR}
      %c = "arith.constant"() <{{value = 7 : i32}}> : () -> i32
      "tt.store"(%p, %c) : ({PTR}, i32) -> ()
      %v = "tt.load"(%P) : ({PTR}) -> i32
      %s = "arith.constant"() <{{value = 16 : i32}}> : () -> i32
      %j = "arith.addi"(%i, %s) : (i32, i32) -> i32
      %q = "tt.addptr"(%P, %j) : ({PTR}, i32) -> {PTR}
      "tt.store"(%q, %v) : ({PTR}, i32) -> ()
      tile.yield
    }}"""
    report = run(module(body), numbers(32), check_orders)
    assert "hoisted" in {d.order for d in report.differences}


def test_two_points_of_one_store_are_the_kernels_own_race():
    body = f"""
    tile.nest (%i) in [16] does "store" from "k.py:3" {{
      "tt.store"(%P, %i) : ({PTR}, i32) -> ()
      tile.yield
    }}"""
    report = run(module(body), numbers(), check_orders)
    assert report.ok
    assert report.races == ["k.py:3"]


def test_a_product_into_its_own_operand():
    kind = "!tile.buffer<[4, 4], f32>"
    fills = "".join(
        f"""
    %{name} = tile.alloc at {place} : {kind}
    tile.nest (%i, %j) in [4, 4] {{
      %v = "arith.sitofp"(%i) : (i32) -> f32
      tile.write %v, %{name}[%i, %j] : {kind}
      tile.yield
    }}"""
        for name, place in (("A", 0), ("B", 128))
    )
    text = module(f'{fills}\n    tile.dot %A, %B, %B : {kind}, {kind}, {kind} does "dot" from "k.py:5"')
    with pytest.raises(OverlapError, match=r"tile\.dot \(k\.py:5\)"):
        run(text, numbers())


def test_an_access_outside_the_tensor():
    tensor = numbers()
    beyond = tensor.ctypes.data + tensor.nbytes
    with pytest.raises(
        OutOfBoundsError, match=re.escape(f"tt.store (k.py:7) touches 4 bytes at {beyond:#x}")
    ):
        run(module(SHIFT), tensor)


def test_an_index_outside_the_buffer():
    text = module(f"%A = tile.alloc at 0 : !tile.buffer<[8], i32>{fill('%A', 16).replace('<[16]', '<[8]')}")
    with pytest.raises(OutOfBoundsError, match=r"index 8 along axis 0 of a buffer of shape \[8\]"):
        run(text, numbers())
