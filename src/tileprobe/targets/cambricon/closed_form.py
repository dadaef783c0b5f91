"""The paper's formulas, as a check beside the engine: never inside it.

T = sum over matrices of alpha * requests * t_rc, plus the KV cache over the DRAM's bandwidth. It knows no
rounding to whole requests, no waiting for a channel, and no special functions, so it is faster than the
engine.
"""

from __future__ import annotations

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.pagemap import FLASH_ONLY, NPU_ONLY


def closed_form_us(program: p.Program, machine: Machine, options: Options) -> float:
    """The closed form for the tiles that the program has; requests are counted per matrix, wasted parts
    included.
    """
    flash, cores = machine.flash, machine.cores_per_channel
    bytes_per_us = 1e3 * min(flash.channel_gb_per_s, machine.link.gb_per_s / flash.channels)
    total = 0.0
    for row in program.matrices:
        tile_rows, tile_cols = int(row[p.BLOCK_ROWS]) * cores, int(row[p.BLOCK_COLS]) * flash.channels
        requests = -(-int(row[p.ROWS]) // tile_rows) * -(-int(row[p.COLS]) // tile_cols)
        inputs, sums = int(row[p.INPUT_BYTES]), tile_rows * int(row[p.SUM_BYTES])
        t_rc = flash.read_us + inputs / bytes_per_us
        rate = min((inputs + sums) / (flash.read_us * bytes_per_us), 0.999)
        t_r = flash.page_bytes / ((1 - rate) * bytes_per_us)
        if options.mode == NPU_ONLY or options.prefill:
            total += requests * cores * flash.page_bytes / bytes_per_us
        else:
            alpha = 1.0 if options.mode == FLASH_ONLY else cores * t_r / (cores * t_r + t_rc)
            total += alpha * requests * t_rc
    kv = (program.costs[:, p.K_DRAM_US] + program.costs[:, p.V_DRAM_US]) * program.operators[:, p.KV_HEADS]
    return total + float(kv.sum())
