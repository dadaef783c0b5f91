"""What the same model does without in-flash computing: offloading to a host's SSD or DRAM, and the NPU alone.

The hosts are declared here with their sources; a token needs every weight once, so their time is that of
the slowest stage of a pipeline of transfers. The NPU alone runs on the engine, with every page streamed
over the channels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tileprobe.targets.cambricon.compile import Options, kv_cache_bytes
from tileprobe.targets.cambricon.machine import Machine
from tileprobe.targets.cambricon.model import Model
from tileprobe.targets.cambricon.pagemap import NPU_ONLY


@dataclass(frozen=True)
class Host:
    """A PC with a GPU that offloads, as FlexGen does it."""

    name: str
    ssd_gb_per_s: float | None
    pcie_gb_per_s: float
    crossings: int  # times each weight is moved: flash channel, DRAM, PCIe


# One NVMe drive on PCIe 4.0 x4 reads 7.0 GB/s in sequence (data sheets of the class, e.g. 980 PRO); a GPU on
# PCIe 4.0
# x16 receives about 25 GB/s of its 31.5.
FLEXGEN_SSD = Host("FlexGen-SSD", ssd_gb_per_s=7.0, pcie_gb_per_s=25.0, crossings=3)
FLEXGEN_DRAM = Host("FlexGen-DRAM", ssd_gb_per_s=None, pcie_gb_per_s=25.0, crossings=2)


@dataclass(frozen=True)
class Baseline:
    name: str
    tokens_per_s: float
    moved_gb: float
    joules_per_token: float


def offload(host: Host, model: Model, machine: Machine, options: Options) -> Baseline:
    """Weights in 8 bits from the SSD to the host's DRAM and on to the GPU: a layer is read, then sent."""
    weights = float(model.weights)
    seconds = weights / (host.pcie_gb_per_s * 1e9)
    if host.ssd_gb_per_s is not None:
        seconds += weights / (host.ssd_gb_per_s * 1e9)
    e, bits = machine.energy, weights * 8
    kv = kv_cache_bytes(model, options) * 8 * e.dram_pj_per_bit
    if host.ssd_gb_per_s is None:  # read from DRAM, sent over PCIe
        picojoules = bits * (e.dram_pj_per_bit + e.pcie_pj_per_bit) + kv
    else:  # read from the array, over the SSD's channels, over PCIe
        picojoules = bits * (e.array_read_pj_per_bit + e.channel_pj_per_bit + e.pcie_pj_per_bit) + kv
    return Baseline(host.name, 1 / seconds, host.crossings * weights / 1e9, picojoules * 1e-12)


def npu_only(model: Model, machine: Machine, options: Options) -> Baseline:
    from tileprobe.targets.cambricon.simulate import simulate

    result = simulate(model, machine, replace(options, mode=NPU_ONLY, tiling="paper", tile=""))
    return Baseline("NPU only", result.tokens_per_s, result.channel_gb, result.joules_per_token)


def baselines(model: Model, machine: Machine, options: Options) -> list[Baseline]:
    hosts = [offload(host, model, machine, options) for host in (FLEXGEN_SSD, FLEXGEN_DRAM)]
    return [*hosts, npu_only(model, machine, options)]
