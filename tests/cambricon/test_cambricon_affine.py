"""The affine page maps in the IR and the page map in Python name the same pages, for all modes and kinds of die."""

import itertools

import numpy as np
import pytest

from tileprobe.targets.cambricon.commands import LoopOp, PageReadOp, ReadComputeOp
from tileprobe.targets.cambricon.compile import Options, compile_step
from tileprobe.targets.cambricon.machine import load_machine
from tileprobe.targets.cambricon.model import from_config
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY, SPLIT, geometry_of
from tileprobe.targets.cambricon.walk import gemvs_of, page_map_of

MODEL = from_config(
    {
        "model_type": "llama", "hidden_size": 600, "intermediate_size": 1500, "num_hidden_layers": 2,
        "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": 100,
    }
)  # fmt: skip


def commanded(gemv, geometry):
    """Every place that the loops of a gemv name, over all channels and cores (or dies)."""
    for op in gemv.walk():
        if not isinstance(op, (ReadComputeOp, PageReadOp)):
            continue
        inner = op.parent_op()
        outer = inner.parent_op()
        assert isinstance(inner, LoopOp)
        assert isinstance(outer, LoopOp)
        units = geometry.cores if isinstance(op, ReadComputeOp) else geometry.dies_per_channel
        loops = itertools.product(range(outer.trip.data), range(inner.trip.data))
        for indices, channel, unit in itertools.product(loops, range(geometry.channels), range(units)):
            yield op.page.data.eval(list(indices), [channel, unit])


@pytest.mark.parametrize("mode", [SPLIT, FLASH_ONLY, NPU_ONLY])
@pytest.mark.parametrize("dies", [{}, {"planes_per_die": 4}, {"planes_per_die": 4, "cores_per_die": 2}])
def test_the_loops_name_the_pages(mode, dies):
    machine = load_machine("cambricon:s").replace(channels=3, page_bytes=1024, slice_bytes=512, **dies)
    geometry = geometry_of(machine, mode)
    module = compile_step(MODEL, machine, Options(context=10, mode=mode))
    for gemv in gemvs_of(next(iter(module.ops)).next_op):
        m = page_map_of(gemv, machine, geometry, 0)
        table, _ = m.table()
        pages = set(zip(*(x.tolist() for x in table[:5])))
        named = list(commanded(gemv, geometry))
        assert len(set(named)) == len(named)  # no page twice
        places = np.array(named).T
        held = m.blocks(*places).rows > 0  # pages past the matrix's edge are not commanded
        assert {tuple(p) for p in np.array(named)[held].tolist()} == pages
