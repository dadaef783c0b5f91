"""The machine as data: a device by name (`cambricon:s`, `:m`, `:l`) or a TOML file in, a validated
`Machine` out.

Every constant carries its unit in its name and its source beside it (`Machine.sources`). A file names a
`base` and lists only what differs. Nothing here computes a time: the passes and the engine do.

    machine = load_machine("cambricon:l")
    small = machine.replace(channels=4, chips_per_channel=1)     # any field of any section, by its name
"""

from __future__ import annotations

import copy
import dataclasses
import math
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tileprobe.errors import TileProbeError

BUILT_IN = ("cambricon:s", "cambricon:m", "cambricon:l")


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


SECTIONS: dict[str, type] = {
    "flash": Flash,
    "core": Core,
    "npu": Npu,
    "dram": Dram,
    "link": Link,
    "energy": Energy,
    "area": Area,
}
# constants that may be zero: switching one off is a fair question to ask of a simulator
_MAY_BE_ZERO = {"register_copy_us", "command_us", "slice_command_us", "latency_us", "spare_bytes"}


@dataclass(frozen=True)
class Machine:
    """A device. `sources` maps "section.constant" to where its value comes from."""

    name: str
    flash: Flash
    core: Core
    npu: Npu
    dram: Dram
    link: Link
    energy: Energy
    area: Area
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
            section, constant = _find_constant(key)
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
    """The device of that name, or the one a TOML file describes."""
    tables, name = _tables(str(name_or_path))
    sections, sources = {}, {}
    for section, cls in SECTIONS.items():
        values = {}
        for f in dataclasses.fields(cls):
            if f.name not in tables.get(section, {}):
                raise TileProbeError(
                    f'{name_or_path}: [{section}] lacks `{f.name}`; give it or a `base` such as "cambricon:s"'
                )
            value, source = tables[section][f.name]
            values[f.name] = _coerce(section, f.name, value, str(name_or_path))
            sources[f"{section}.{f.name}"] = source
        sections[section] = cls(**values)
    return Machine(name=name, sources=sources, origin=str(name_or_path), **sections)


def _tables(name: str, seen: tuple[str, ...] = ()) -> tuple[dict[str, dict[str, tuple[Any, str]]], str]:
    """The constants of a device with those of its bases below them: section -> constant -> (value,
    source).
    """
    if name in seen:
        raise TileProbeError(f"device {seen[0]}: `base` goes in a circle: {' -> '.join((*seen, name))}")
    document = _read(name)
    base = document.pop("base", None)
    if base is not None and not isinstance(base, str):
        raise TileProbeError(
            f'{name}: `base` must be the name of a device, such as "cambricon:s", found {base!r}'
        )
    tables, _ = _tables(base, (*seen, name)) if base else ({}, "")
    tables = {section: dict(constants) for section, constants in tables.items()}
    own_name = document.pop("name", Path(name).stem)
    for section, constants in document.items():
        if section not in SECTIONS or not isinstance(constants, dict):
            raise TileProbeError(
                f"{name}: unknown section [{section}]; the sections are {', '.join(SECTIONS)}"
            )
        known = {f.name for f in dataclasses.fields(SECTIONS[section])}
        for constant, entry in constants.items():
            if constant not in known:
                raise TileProbeError(
                    f"{name}: [{section}] has no constant `{constant}`; it has {', '.join(sorted(known))}"
                )
            tables.setdefault(section, {})[constant] = _entry(name, section, constant, entry)
    return tables, str(own_name)


def _entry(name: str, section: str, constant: str, entry: Any) -> tuple[Any, str]:
    if not isinstance(entry, dict):
        return entry, f"given in {name} without a source"
    if "value" not in entry or set(entry) - {"value", "source"}:
        raise TileProbeError(
            f"{name}: [{section}] {constant} must be a value or "
            f'{{ value = ..., source = "..." }}, found {entry!r}'
        )
    return entry["value"], str(entry.get("source", f"given in {name} without a source"))


@cache
def _built_in(name: str) -> dict[str, Any] | None:
    file = (
        resources.files("tileprobe.targets.cambricon")
        / "devices"
        / (name.removeprefix("cambricon:") + ".toml")
    )
    there = name.startswith("cambricon:") and file.is_file()
    return _parsed(name, file.read_text(encoding="utf-8")) if there else None


def _read(name: str) -> dict[str, Any]:
    """A document of its own for each who asks: those that we bring are parsed once."""
    document = copy.deepcopy(_built_in(name))
    if document is None:
        path = Path(name)
        if not path.is_file():
            raise TileProbeError(
                f"no device {name!r}: expected {', '.join(BUILT_IN)} or the path of a TOML file that "
                f"describes one"
            )
        document = _parsed(name, path.read_text(encoding="utf-8", errors="replace"))
    return document


def _parsed(name: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise TileProbeError(f"{name} is not valid TOML: {error}") from None


def _find_constant(key: str) -> tuple[str, str]:
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
    flash, core = machine.flash, machine.core
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
