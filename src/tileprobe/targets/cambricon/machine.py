"""The machine as data: a device by name (`cambricon:s`, `:m`, `:l`) or a TOML file in, a validated
`Machine` out.

Every constant carries its unit in its name and its source beside it (`Machine.sources`); files are read in
`device_file.py`. Nothing here computes a time: the passes and the engine do.

    machine = load_machine("cambricon:l")
    small = machine.replace(channels=4, chips_per_channel=1)     # any field of any section, by its name
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError


@dataclass(frozen=True)
class Flash:
    channels: int
    chips_per_channel: int
    dies_per_chip: int
    planes_per_die: int
    pages_per_plane: int
    page_bytes: int
    spare_bytes: int
    read_us: float
    register_copy_us: float
    channel_gb_per_s: float
    command_us: float
    slice_bytes: int
    slice_command_us: float
    spare_travels: bool
    prefetch: bool
    program_us: float
    erase_us: float
    pages_per_block: int
    endurance_cycles: int


@dataclass(frozen=True)
class Core:
    cores_per_die: int
    input_slots: int
    page_us: float
    buffer_bytes: int
    partial_sum_bytes_w8a8: int
    partial_sum_bytes_w4a16: int


@dataclass(frozen=True)
class Npu:
    array_rows: int
    array_cols: int
    macs_per_pe: int
    clock_ghz: float
    sram_bytes: int
    kv_ahead: bool
    sfu_lanes: int

    @property
    def macs_per_us(self) -> float:
        """Peak multiply-accumulates a microsecond, of a matrix product that keeps the array full."""
        return self.array_rows * self.array_cols * self.macs_per_pe * self.clock_ghz * 1e3

    @property
    def edge_gb_per_s(self) -> float:
        """Operand bytes a nanosecond through one edge of the array: a GeMV uses each weight once, so this
        is its peak.
        """
        return self.array_rows * self.macs_per_pe * self.clock_ghz


@dataclass(frozen=True)
class Dram:
    gb_per_s: float
    capacity_bytes: int
    latency_us: float


@dataclass(frozen=True)
class Link:
    gb_per_s: float
    latency_us: float


@dataclass(frozen=True)
class Packages:
    """The link from each of several packages to the next, in a ring."""

    gb_per_s: float
    latency_us: float


@dataclass(frozen=True)
class Energy:
    array_read_pj_per_bit: float
    channel_pj_per_bit: float
    dram_pj_per_bit: float
    pcie_pj_per_bit: float
    link_pj_per_bit: float
    core_ecc_uw: float
    core_pe_uw: float
    core_buffer_uw: float
    npu_pj_per_mac: float
    sfu_pj_per_element: float


@dataclass(frozen=True)
class Area:
    core_ecc_um2: float
    core_pe_um2: float
    core_buffer_um2: float


@dataclass(frozen=True)
class Aging:
    """Bit errors by wear, retention and read disturb, what a page's code corrects, and what a retry gains."""

    rber_base: float
    rber_wear: float
    wear_power: float
    rber_retention: float
    retention_cycles_power: float
    retention_power: float
    rber_disturb: float
    disturb_cycles_power: float
    disturb_power: float
    reference_celsius: float
    activation_ev: float
    sector_bytes: int
    correctable_bits: int
    retry_factor: float
    most_retries: int


SECTIONS: dict[str, type] = {
    "flash": Flash,
    "core": Core,
    "npu": Npu,
    "dram": Dram,
    "link": Link,
    "packages": Packages,
    "energy": Energy,
    "area": Area,
    "aging": Aging,
}
# constants that may be zero: switching one off is a fair question to ask of a simulator
_MAY_BE_ZERO = {"register_copy_us", "command_us", "slice_command_us", "latency_us", "spare_bytes"}
_MAY_BE_ZERO |= {"rber_base", "rber_wear", "rber_retention", "rber_disturb", "most_retries", "activation_ev"}
_MAY_BE_ZERO |= {
    "wear_power",
    "retention_cycles_power",
    "retention_power",
    "disturb_cycles_power",
    "disturb_power",
}


MOST = 2**48  # of a whole number, so that products of them are exact
MOST_PLANES = 2**20  # all of which the engine has in memory


@dataclass(frozen=True)
class Machine:
    """A device. `sources` maps "section.constant" to where its value comes from."""

    name: str
    flash: Flash
    core: Core
    npu: Npu
    dram: Dram
    link: Link
    packages: Packages
    energy: Energy
    area: Area
    aging: Aging
    sources: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    origin: str = field(default="", compare=False)  # the name or path it was loaded from
    changes: dict[str, Any] = field(default_factory=dict, compare=False)  # what `replace` changed since

    def __post_init__(self) -> None:
        _validate(self)

    @property
    def dies_per_channel(self) -> int:
        return self.flash.chips_per_channel * self.flash.dies_per_chip

    @property
    def cores_per_channel(self) -> int:
        return self.dies_per_channel * self.core.cores_per_die

    @property
    def dies(self) -> int:
        return self.flash.channels * self.dies_per_channel

    @property
    def wire_gb_per_s(self) -> float:
        """Of all channels together, which meet at the link to the NPU."""
        return self.flash.channels * self.flash.channel_gb_per_s

    @property
    def core_area_mm2(self) -> float:
        """Area of all compute cores."""
        area = self.area.core_ecc_um2 + self.area.core_pe_um2 + self.area.core_buffer_um2
        return self.flash.channels * self.cores_per_channel * area * 1e-6

    @property
    def capacity_bytes(self) -> int:
        return self.dies * self.flash.planes_per_die * self.flash.pages_per_plane * self.flash.page_bytes

    def replace(self, **changes: Any) -> Machine:
        """A variant with other constants, named as in their sections (`channels=4`) or fully
        (`dram.gb_per_s` as `dram_gb_per_s`).
        """
        sections = {name: getattr(self, name) for name in SECTIONS}
        sources = dict(self.sources)
        for key, value in changes.items():
            section, constant = find_constant(key)
            sections[section] = dataclasses.replace(
                sections[section], **{constant: _coerce(section, constant, value, self.name)}
            )
            sources[f"{section}.{constant}"] = "changed by the user"
        merged = {**self.changes, **changes}
        name = self.name.partition("[")[0]
        if merged:
            name += "[" + ",".join(f"{k}={v}" for k, v in merged.items()) + "]"
        return dataclasses.replace(self, name=name, sources=sources, changes=merged, **sections)


def load_machine(name_or_path: str | Path) -> Machine:
    """The device of that name, or the one a TOML file describes, with what is laid over it: `cambricon:s+tlc`."""
    from tileprobe.targets.cambricon.device_file import tables_of

    tables, name = tables_of(str(name_or_path))
    sections, sources = {}, {}
    for section, cls in SECTIONS.items():
        values = {}
        for f in dataclasses.fields(cls):
            if f.name not in tables.get(section, {}):
                raise TileProbeError(
                    f'{name_or_path}: [{section}] lacks `{f.name}`; give it or `inherits = "cambricon:s"`'
                )
            value, source = tables[section][f.name]
            values[f.name] = _coerce(section, f.name, value, str(name_or_path))
            sources[f"{section}.{f.name}"] = source
        sections[section] = cls(**values)
    return Machine(name=name, sources=sources, origin=str(name_or_path), **sections)


def find_constant(key: str) -> tuple[str, str]:
    hits = [
        (section, f.name)
        for section, cls in SECTIONS.items()
        for f in dataclasses.fields(cls)
        if key in (f.name, f"{section}_{f.name}", f"{section}.{f.name}")
    ]
    if len(hits) == 1:
        return hits[0]
    if not hits:
        raise TileProbeError(f"no constant of a machine is named `{key}`; see docs/cambricon.md for the list")
    raise TileProbeError(f"`{key}` is ambiguous: say {' or '.join(f'{s}_{c}' for s, c in hits)}")


def _coerce(section: str, constant: str, value: Any, where: str) -> Any:
    kind = next(f.type for f in dataclasses.fields(SECTIONS[section]) if f.name == constant)
    fits = {
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
    }[str(kind)]
    if not fits:
        raise TileProbeError(f"{where}: [{section}] {constant} must be of type {kind}, found {value!r}")
    return float(value) if kind == "float" else value


def _validate(machine: Machine) -> None:
    for section in SECTIONS:
        for f in dataclasses.fields(getattr(machine, section)):
            value = getattr(getattr(machine, section), f.name)
            if isinstance(value, bool):
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and f.name not in _MAY_BE_ZERO):
                least = "zero or more" if f.name in _MAY_BE_ZERO else "more than zero"
                raise TileProbeError(
                    f"device {machine.name}: [{section}] {f.name} must be {least}, found {value}"
                )
            if isinstance(value, int) and value > MOST:
                raise TileProbeError(
                    f"device {machine.name}: [{section}] {f.name} is {value:,}: at most {MOST:,}"
                )
    flash, core = machine.flash, machine.core
    if machine.dies * flash.planes_per_die > MOST_PLANES:
        raise TileProbeError(
            f"device {machine.name}: {machine.dies * flash.planes_per_die:,} planes of all channels, chips and dies; "
            f"at most {MOST_PLANES:,} are simulated"
        )
    if machine.aging.retry_factor > 1.0:
        raise TileProbeError(
            f"device {machine.name}: [aging] retry_factor must be at most 1, found {machine.aging.retry_factor}: "
            "what a retry leaves of the bit error rate"
        )
    if flash.planes_per_die % 2:
        raise TileProbeError(
            f"device {machine.name}: planes_per_die must be even, found {flash.planes_per_die}: "
            "half of the planes serve read-compute, the other half normal reads"
        )
    if core.cores_per_die > flash.planes_per_die // 2 or (flash.planes_per_die // 2) % core.cores_per_die:
        raise TileProbeError(
            f"device {machine.name}: cores_per_die must divide the planes that compute "
            f"({flash.planes_per_die // 2}, half of the planes of a die), found {core.cores_per_die}"
        )
    if flash.slice_bytes > flash.page_bytes:
        raise TileProbeError(
            f"device {machine.name}: slice_bytes ({flash.slice_bytes}) is more than a page "
            f"({flash.page_bytes})"
        )
