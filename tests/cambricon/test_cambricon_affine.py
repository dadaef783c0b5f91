"""The commands in the IR, the page map in Python, and the pages that engine and functional model touch are one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.commands import BroadcastOp, LoopOp, PageReadOp, ReadComputeOp
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.encode import encode, page_tables, the_step
from tileprobe.targets.cambricon.engine import state as s
from tileprobe.targets.cambricon.engine.launch import launch
from tileprobe.targets.cambricon.expand import expand
from tileprobe.targets.cambricon.families import from_config
from tileprobe.targets.cambricon.functional.placement import compiled_maps
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, PageMap, geometry_of
from tileprobe.targets.cambricon.passes.cam_map_pages import commands
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.simulate import simulate_module
from tileprobe.targets.cambricon.tiling import Buffers
from tileprobe.targets.cambricon.walk import gemvs_of

MODEL = from_config(
    {
        "model_type": "llama", "hidden_size": 600, "intermediate_size": 1500, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 100,
    }
)  # fmt: skip
SMALL = load_machine("cambricon:s").replace(channels=3, page_bytes=1024, slice_bytes=512)
DIES = [{}, {"planes_per_die": 4}, {"planes_per_die": 4, "cores_per_die": 2}]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_loops_name_the_pages_of_the_map(data):
    """Place and block of every page, for all modes, kinds of die, layers, edges and ways to lay the NPU's share."""
    draw = data.draw
    machine = SMALL.replace(channels=draw(st.integers(1, 4)), **draw(st.sampled_from(DIES)))
    mode = draw(st.sampled_from([SPLIT, FLASH_ONLY, NPU_ONLY]))
    g = geometry_of(machine, mode)
    rows, cols = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    chunks = -(-rows // 8)
    flash = {FLASH_ONLY: chunks, NPU_ONLY: 0}.get(mode, draw(st.integers(0, chunks)))
    m = PageMap(
        g, rows, cols, 8, 8, flash, first_core=draw(st.integers(0, g.cores - 1)), compute_base=3,
        stream_first=draw(st.integers(0, 40)), striped=draw(st.booleans()),
    )  # fmt: skip
    found = expand("m", rows, cols, commands([m], Buffers(1, 8, 0), machine, precision_of("w8a8"), (7, 5)), g)
    assert found.missing() == 0
    for layer in (0, 2):
        expected = [np.stack(part[:5]) for part in m.table()]
        expected[0][4] += layer * np.where(expected[1][4], 7, 5)
        expected, named = (
            {tuple(row) for row in np.concatenate(two).T.tolist()}
            for two in (expected, [np.stack(part[:5]) for part in found.table(layer)])
        )
        assert named == expected


def pages_read(module, machine):
    """(channel, die on the channel, number on the die) of each array read, from the engine's trace."""
    program, geometry = encode(module), geometry_of(machine, the_step(module).mode.data)
    keep = np.ones(len(program.operators), bool)
    tr = launch(program, machine, geometry, keep, 1 << 18).trace
    assert tr.count[1] == 0
    reads = np.isin(tr.kind[: tr.count[0]], (s.T_ARRAY, s.T_PAGE_READ))
    kind, channel, unit, number = (x[: tr.count[0]][reads] for x in (tr.kind, tr.channel, tr.unit, tr.value))
    die = np.where(kind == s.T_ARRAY, unit // geometry.cores_per_die, unit)
    return sorted(zip(channel.tolist(), die.tolist(), number.astype(int).tolist()))


@pytest.mark.parametrize("dies", DIES)
@pytest.mark.parametrize("mode", [SPLIT, FLASH_ONLY, NPU_ONLY])
@pytest.mark.parametrize("tiling", ["paper", "best"])
def test_the_engine_reads_the_pages_where_the_values_lie_page_by_page(mode, dies, tiling):
    machine = SMALL.replace(**dies)
    options = Options(context=10, mode=mode, tiling=tiling, lm_head=True)
    stored = []
    for one in compiled_maps(
        MODEL, machine, options
    ).values():  # what the functional model writes and multiplies
        at, _ = one.table()
        die = at.chip * machine.flash.dies_per_chip + at.die
        numbers = at.page * machine.flash.planes_per_die + at.plane
        stored += zip(at.channel.tolist(), die.tolist(), numbers.tolist())
    assert len(set(stored)) == len(stored)
    assert pages_read(compile_step(MODEL, machine, options), machine) == sorted(stored)


def edited(change):
    module = compile_step(MODEL, SMALL, Options(context=10))
    for gemv in gemvs_of(the_step(module)):
        change(gemv)
    return module


def first(gemv, kind):
    return next((op for op in gemv.walk() if isinstance(op, kind)), None)


def test_editing_the_commands_changes_the_run():
    plain = simulate_module(edited(lambda gemv: None))
    assert not plain.missing

    def empty(gemv):
        for op in list(gemv.body.block.ops):
            op.detach()

    nothing = simulate_module(edited(empty))
    assert nothing.page_commands == 0
    assert nothing.latency_ms < 0.1 * plain.latency_ms
    assert set(nothing.missing) == {"q", "k", "v", "o", "gate", "up", "down"}

    def half_the_requests(gemv):
        op = first(gemv, ReadComputeOp)
        if op is not None:
            inner = op.parent_op()
            assert isinstance(inner, LoopOp)
            inner.trip = type(inner.trip)(max(1, inner.trip.data // 2))

    half = simulate_module(edited(half_the_requests))
    assert half.read_compute_commands < plain.read_compute_commands
    assert half.missing

    def long_inputs(gemv):
        op = first(gemv, BroadcastOp)
        if op is not None:
            op.bytes = type(op.bytes)(20 * op.bytes.data)

    assert simulate_module(edited(long_inputs)).traffic_gb["input"] == pytest.approx(
        20 * plain.traffic_gb["input"], rel=0.01
    )

    def long_pages(gemv):
        op = first(gemv, PageReadOp)
        if op is not None:
            op.bytes = type(op.bytes)(2048)

    longer = simulate_module(edited(long_pages))
    assert longer.traffic_gb["spare"] == plain.traffic_gb["stream"]  # 1 KB more for each page of 1 KB
    assert longer.latency_ms > plain.latency_ms


def test_commands_for_what_the_machine_does_not_have():
    def on(result, value):
        def change(gemv):
            op = first(gemv, ReadComputeOp)
            if op is None:
                return
            page = op.page.data
            results = list(page.results)
            results[result] = results[result] * 0 + value
            op.page = type(op.page)(type(page)(page.num_dims, page.num_symbols, tuple(results)))

        return change

    for result, value, message in (
        (0, 3, "names channel 3, the machine has 3"),
        (3, 1, "plane 1 of a die serves reads"),
        (2, 0, "two pages for one core"),
        (4, -1, "names page -1"),
    ):
        with pytest.raises(TileProbeError, match=message):
            simulate_module(edited(on(result, value)))


def test_tables_of_all_layers_never_meet():
    seen = set()
    for _, one in page_tables(compile_step(MODEL, SMALL, Options(context=10, lm_head=True))):
        at, _ = one.table()
        here = set(zip(*(x.tolist() for x in at[:5])))
        assert len(here) == one.commands.pages
        assert not here & seen
        seen |= here
