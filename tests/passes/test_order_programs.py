"""Programs in another order: each piece of work is done once, by whichever program, and results are what they were."""

import numpy as np
import pytest
import triton
import triton.language as tl
from xdsl.dialects.builtin import ModuleOp

import tileprobe
from tileprobe.errors import TileProbeError
from tileprobe.passes.order_programs import OrderProgramsPass
from tileprobe.session.relaunching import relaunching


@triton.jit
def _place():
    return (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)) * tl.num_programs(0) + tl.program_id(0)


@triton.jit
def who(out, times, order, turn):
    """Of each place: its number, how often it was done, and as the how-manieth."""
    at = _place()
    tl.store(out + at, at * 3)
    tl.atomic_add(times + at, 1)
    tl.store(order + at, tl.atomic_add(turn, 1))


def done(grid, edit, on="cpu"):
    count = int(np.prod(grid))
    out, times, order, turn = (tileprobe.array(np.zeros(n, np.int32)) for n in (count, count, count, 1))
    found = {}

    def question(one):
        one.restore()
        one.run(edit=edit)
        found.update({tensor.name: tensor.values for tensor in one.tensors()})

    with tileprobe.use(on, threads=1), relaunching(question):
        who[grid](out, times, order, turn)
    np.testing.assert_array_equal(out.numpy(), 3 * np.arange(count))  # the program's own launch
    np.testing.assert_array_equal(found["out"], 3 * np.arange(count))
    assert (found["times"] == 1).all()
    return found["order"].reshape((1, 1, *grid[::-1])[-3:])  # [z, y, x]


GRIDS = [(1,), (7,), (16, 1), (5, 7), (8, 3), (1, 6), (3, 17, 2)]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("order", ["reversed", "columns", "grouped", "dealt"])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_each_place_is_done_once(grid, order, size):
    done(grid, f"order-programs{{order={order} size={size}}}")


def test_orders_are_what_they_are_called():
    plain = done((5, 7), "")
    np.testing.assert_array_equal(plain, np.arange(35).reshape(1, 7, 5))
    np.testing.assert_array_equal(done((5, 7), "order-programs{order=reversed}"), plain[:, ::-1, ::-1])
    np.testing.assert_array_equal(
        done((5, 7), "order-programs{order=columns}")[0], np.arange(35).reshape(5, 7).T
    )
    grouped = done((4, 8), "order-programs{order=grouped size=2}")[0]
    for group in range(4):  # two rows of a group by turns
        np.testing.assert_array_equal(
            grouped[2 * group : 2 * group + 2], 8 * group + np.arange(8).reshape(4, 2).T
        )
    assert done((6,), "order-programs{order=dealt size=2}").tolist() == [[[0, 2, 4, 1, 3, 5]]]
    assert done((7,), "order-programs{order=dealt size=2}").tolist() == [[[0, 2, 4, 6, 1, 3, 5]]]


def test_on_a_simulated_gpu():
    done((5, 7), "order-programs{order=grouped size=3}", "sim:a100")


def test_wrong_options_are_named():
    from tileprobe.ir.registry import context

    module = ModuleOp([])
    with pytest.raises(TileProbeError, match="can be reversed, columns, grouped, dealt, not 'sorted'"):
        OrderProgramsPass("sorted").apply(context(), module)
    with pytest.raises(TileProbeError, match="1 program or more, not 0"):
        OrderProgramsPass("grouped", 0).apply(context(), module)
