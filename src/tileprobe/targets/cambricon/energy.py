"""Energy of a step, by what spends it: every bit read, moved and multiplied times the machine's constants."""

from __future__ import annotations

from tileprobe.targets.cambricon.compile import Options
from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.precision import precision_of

PICO = 1e-12


def energy_of(
    machine: Machine,
    program: p.Program,
    run: Run,
    options: Options,
    channel_bytes: float,
    pages: int,
    total_us: float,
) -> dict[str, float]:
    """Joules by part. An array read is counted by the data bits of its page; the constants are per such
    bit."""
    e, costs, operators = machine.energy, program.costs, program.operators
    dram_us = (costs[:, p.K_DRAM_US] + costs[:, p.V_DRAM_US]) * operators[:, p.KV_HEADS] + costs[:, p.DRAM_US]
    dram_bytes = float(dram_us.sum()) * machine.dram.gb_per_s * 1e3
    core_us = float(run.state.core_busy.sum())
    array_macs = (
        float(run.busy_us[0])
        * machine.npu.edge_gb_per_s
        * 1e3
        / precision_of(options.weights).activation_bytes
    )
    sfu_elements = float(run.busy_us[1]) * machine.npu.sfu_lanes * machine.npu.clock_ghz * 1e3
    return {
        "array_read": pages * machine.flash.page_bytes * 8 * e.array_read_pj_per_bit * PICO,
        "channel": channel_bytes * 8 * e.channel_pj_per_bit * PICO,
        "link": channel_bytes * 8 * e.link_pj_per_bit * PICO,
        "dram": dram_bytes * 8 * e.dram_pj_per_bit * PICO,
        "cores": core_us * (e.core_ecc_uw + e.core_pe_uw + e.core_buffer_uw) * PICO,
        "npu": array_macs * e.npu_pj_per_mac * PICO + sfu_elements * e.sfu_pj_per_element * PICO,
    }
