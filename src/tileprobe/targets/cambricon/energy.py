"""Energy of a step, by what spends it: every bit read, moved and multiplied times the machine's constants."""

from __future__ import annotations

from tileprobe.targets.cambricon.engine import program as p
from tileprobe.targets.cambricon.engine.launch import Run
from tileprobe.targets.cambricon.machine import Machine

PICO = 1e-12


def energy_of(
    machine: Machine, program: p.Program, run: Run, channel_bytes: float, pages: int
) -> dict[str, float]:
    """Joules by part. An array read counts the data bits of its page: the constant is per such bit."""
    e, costs, operators = machine.energy, program.costs, program.operators
    dram_us = (costs[:, p.K_DRAM_US] + costs[:, p.V_DRAM_US]) * operators[:, p.KV_HEADS] + costs[:, p.DRAM_US]
    latency_us = machine.dram.latency_us * float((operators[:, p.KIND] == p.ATTENTION).sum())
    dram_bytes = (float(dram_us.sum()) - latency_us) * machine.dram.gb_per_s * 1e3
    core_us = float(run.state.core_busy.sum())
    sfu_elements = float(run.busy_us[1]) * machine.npu.sfu_lanes * machine.npu.clock_ghz * 1e3
    return {
        "array_read": pages * machine.flash.page_bytes * 8 * e.array_read_pj_per_bit * PICO,
        "channel": channel_bytes * 8 * e.channel_pj_per_bit * PICO,
        "link": channel_bytes * 8 * e.link_pj_per_bit * PICO,
        "dram": dram_bytes * 8 * e.dram_pj_per_bit * PICO,
        "cores": core_us * (e.core_ecc_uw + e.core_pe_uw + e.core_buffer_uw) * PICO,
        "npu": program.meta["npu_macs"] * e.npu_pj_per_mac * PICO
        + sfu_elements * e.sfu_pj_per_element * PICO,
    }
