"""The paper's formulas, as a check beside the engine: never inside it.

T = sum over matrices of alpha * requests * t_rc, plus the KV cache over the DRAM's bandwidth. It knows no
rounding to whole requests, no waiting for a channel, and no special functions, so it is faster than the
engine.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.dialect import GemvOp, LayersOp, StepOp
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY
from tileprobe.targets.cambricon.precision import precision_of
from tileprobe.targets.cambricon.walk import tile_of


def closed_form_us(step: StepOp, program: p.Program, machine: Machine) -> float:
    """The closed form for the tiles that a step has; requests are counted per matrix, wasted parts
    included.
    """
    flash, cores, precision = machine.flash, machine.cores_per_channel, precision_of(step.weights.data)
    bytes_per_us = 1e3 * min(flash.channel_gb_per_s, machine.link.gb_per_s / flash.channels)
    total = 0.0
    for gemv in (op for op in step.walk() if isinstance(op, GemvOp)):
        layers, tile = gemv.parent_op(), tile_of(gemv)
        requests = -(-gemv.rows.data // tile.rows) * -(-gemv.cols.data // tile.cols)
        requests *= layers.count.data if isinstance(layers, LayersOp) else 1
        requests *= gemv.experts.active.data if gemv.experts is not None else 1
        inputs = tile.cols // flash.channels * precision.activation_bytes
        sums = tile.rows * precision.partial_sum_bytes(machine)
        t_rc = flash.read_us + inputs / bytes_per_us
        rate = min((inputs + sums) / (flash.read_us * bytes_per_us), 0.999)
        t_r = flash.page_bytes / ((1 - rate) * bytes_per_us)
        if step.mode.data == NPU_ONLY:
            total += requests * cores * flash.page_bytes / bytes_per_us
        else:
            alpha = 1.0 if step.mode.data == FLASH_ONLY else cores * t_r / (cores * t_r + t_rc)
            total += alpha * requests * t_rc
    kv = (program.costs[:, p.K_DRAM_US] + program.costs[:, p.V_DRAM_US]) * program.operators[:, p.KV_HEADS]
    return total + float(kv.sum())
