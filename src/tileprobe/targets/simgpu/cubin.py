"""A cubin, taken apart: code, constant banks, initialised memory, parameters, relocations.

In come the bytes of an ELF file made by ptxas; out goes `Cubin`, plain data. Nothing of it is trusted: sizes and places
are checked, and whatever does not fit raises `BadCubin`. Nothing of it is ever run as code of this machine.
"""

from __future__ import annotations

import io
import re
import struct
from dataclasses import dataclass, field
from typing import Any

from tileprobe.targets.simgpu.errors import BadCubin

_CUDA_MACHINE = 190  # EM_CUDA
_ARCH_SHIFT = 0, 8  # the low byte of e_flags; from version 8 of the ABI on, the second one
# Attributes in `.nv.info`, by the numbers that cuobjdump prints beside their names.
_PARAM_CBANK, _REGCOUNT, _FRAME_SIZE, _KPARAM_INFO, _MAX_THREADS, _REQNTID = (
    0x0A,
    0x2F,
    0x11,
    0x17,
    0x05,
    0x10,
)
_MIN_STACK, _CTA_PER_CLUSTER = 0x12, 0x3D
_RESERVED = {90: 1024}  # bytes of shared memory that sm_90 keeps for itself, and that its cubins count
_OF_SYMBOL = (_REGCOUNT, _FRAME_SIZE, _MIN_STACK)  # their first word is the number of a symbol
_ADDRESS_64 = 2  # R_CUDA_64: the only relocation of constant banks that ptxas makes for Triton
_LARGEST = 64 << 20  # bytes; Triton's kernels stay far below


@dataclass(frozen=True)
class Parameter:
    offset: int  # from the base of the parameters
    size: int


@dataclass(frozen=True)
class Relocation:
    """Eight bytes of a constant bank that hold the address of a symbol: of initialised memory, or of a function that
    the driver would bring (`function`)."""

    bank: int
    offset: int
    section: str = ""
    value: int = 0
    function: str = ""


@dataclass
class Cubin:
    name: str
    arch: int
    code: bytes
    registers: int = 0
    stack_bytes: int = 0
    threads: int = 0  # that a program must have, or may have at most; 0 where it is not said
    block: tuple[int, int, int] | None = None  # what it must have along each axis, where that is said
    cluster: tuple[int, int, int] | None = None  # programs of a cluster, where that is said
    parameter_base: int = 0
    parameters: list[Parameter] = field(default_factory=list)
    banks: dict[int, bytes] = field(default_factory=dict)
    memory: dict[str, bytes] = field(default_factory=dict)  # initialised global memory by section
    relocations: list[Relocation] = field(default_factory=list)
    static_shared_bytes: int = 0


def read(data: bytes, name: str | None = None) -> Cubin:
    """The kernel of a cubin; the only one, unless a name says which."""
    try:
        return _read(data, name)
    except BadCubin:
        raise
    except Exception as error:  # pyelftools raises whatever it runs into
        raise BadCubin(f"the cubin is damaged: {type(error).__name__}: {error}") from None


def _read(data: bytes, name: str | None) -> Cubin:
    from elftools.elf.elffile import ELFFile

    if data[:4] != b"\x7fELF":
        raise BadCubin("this is no cubin: it does not begin as an ELF file does")
    if len(data) > _LARGEST:
        raise BadCubin(f"the cubin has {len(data)} bytes; more than {_LARGEST} are not read")
    elf = ELFFile(io.BytesIO(data))
    if elf.header["e_machine"] not in (_CUDA_MACHINE, "EM_CUDA"):
        raise BadCubin(f"this is no cubin: it is code for {elf.header['e_machine']}")
    sections = {section.name: section for section in elf.iter_sections()}
    kernels = [title[len(".text.") :] for title in sections if title.startswith(".text.")]
    name = _named(name, kernels)
    if name not in kernels:
        raise BadCubin(f"the cubin has no kernel {name!r}; it has {', '.join(kernels) or 'none'}")
    made = Cubin(name, _arch(elf), _bytes(sections[f".text.{name}"]))
    _read_banks(made, sections)
    _read_relocations(made, elf, sections)
    others = {n for n, s in enumerate(_symbols(sections)) if s in kernels and s != name}
    _read_info(made, _bytes(sections[".nv.info"]) if ".nv.info" in sections else b"", others)
    _read_info(made, _bytes(sections[f".nv.info.{name}"]) if f".nv.info.{name}" in sections else b"", set())
    made.parameters.sort(key=lambda parameter: parameter.offset)
    shared = sections.get(f".nv.shared.{name}")
    made.static_shared_bytes = int(shared.header["sh_size"]) if shared is not None else 0
    made.static_shared_bytes = max(0, made.static_shared_bytes - _RESERVED.get(made.arch, 0))
    return made


def _named(name: str | None, kernels: list[str]) -> str:
    """The kernel of that name, or the only one that has it within its (mangled) name; the only one there is."""
    if name in kernels:
        return name
    fitting = [each for each in kernels if name is None or name in each]
    if len(fitting) > 1:
        which = "several kernels" if name is None else f"several kernels with {name!r} in their names"
        raise BadCubin(f"the cubin has {which}; name one of {', '.join(fitting)}")
    return fitting[0] if fitting else name or ""


def _symbols(sections: dict[str, Any]) -> list[str]:
    table = sections.get(".symtab")
    return [] if table is None else [symbol.name for symbol in table.iter_symbols()]


def _arch(elf: Any) -> int:
    flags, version = elf.header["e_flags"], elf.header["e_ident"]["EI_ABIVERSION"]
    return (flags >> _ARCH_SHIFT[version >= 8]) & 0xFF


def _bytes(section: Any) -> bytes:
    if section.header["sh_type"] == "SHT_NOBITS":
        size = int(section.header["sh_size"])
        if size > _LARGEST:
            raise BadCubin(f"the section {section.name} claims {size} bytes")
        return bytes(size)
    data = section.data()
    if len(data) != section.header["sh_size"]:
        raise BadCubin(f"the section {section.name} ends outside of the file")
    return data


def _read_banks(made: Cubin, sections: dict[str, Any]) -> None:
    for title, section in sections.items():
        found = re.fullmatch(r"\.nv\.constant(\d+)(?:\.(.+))?", title)
        if found and found[2] in (None, made.name):
            made.banks[int(found[1])] = _bytes(section)
        elif title in (".nv.global.init", ".nv.global"):
            made.memory[title] = _bytes(section)


def _read_relocations(made: Cubin, elf: Any, sections: dict[str, Any]) -> None:
    symbols = sections[".symtab"]
    for title, section in sections.items():
        found = re.fullmatch(r"\.rela?\.nv\.constant(\d+)(?:\.(.+))?", title)
        if not found or found[2] not in (None, made.name):
            continue
        for entry in section.iter_relocations():
            if entry["r_info_type"] != _ADDRESS_64:
                raise BadCubin(f"{title} has a relocation of type {entry['r_info_type']}, which is not known")
            symbol = symbols.get_symbol(entry["r_info_sym"])
            where = symbol["st_shndx"]
            bank, offset = int(found[1]), int(entry["r_offset"])
            if where == "SHN_UNDEF":
                made.relocations.append(Relocation(bank, offset, function=symbol.name))
                continue
            holder = elf.get_section(where).name
            if holder not in made.memory:
                raise BadCubin(f"{title} points to {symbol.name} in {holder}, which is no initialised memory")
            addend = int(entry["r_addend"]) if entry.is_RELA() else 0
            made.relocations.append(Relocation(bank, offset, holder, int(symbol["st_value"]) + addend))
    for title, section in sections.items():
        if re.fullmatch(rf"\.rela?\.text\.{re.escape(made.name)}", title) and section.num_relocations():
            raise BadCubin(f"{title}: code that a linker has to complete is not taken")


def _read_info(made: Cubin, data: bytes, others: set[int]) -> None:
    """Attributes: a format, a number, then nothing, a byte, a half word, or a size and as many bytes. Those of a symbol
    among the `others` are of another kernel."""
    at = 0
    while at + 4 <= len(data):
        form, number, small = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != 4:  # EIFMT_SVAL; the others hold their value in `small`
            continue
        value = data[at : at + small]
        at += (small + 3) & ~3
        if number in _OF_SYMBOL and int.from_bytes(value[:4], "little") in others:
            continue
        _take(made, number, value)


def _take(made: Cubin, number: int, value: bytes) -> None:
    if number == _KPARAM_INFO:
        _, _, offset, packed = struct.unpack("<IHHI", value)
        made.parameters.append(Parameter(offset, packed >> 18))
    elif number == _PARAM_CBANK:
        _, offset, _ = struct.unpack("<IHH", value)
        made.parameter_base = offset
    elif number == _REGCOUNT:
        made.registers = max(made.registers, struct.unpack("<II", value)[1])
    elif number in (_FRAME_SIZE, _MIN_STACK):
        made.stack_bytes = max(made.stack_bytes, struct.unpack("<II", value)[1])
    elif number in (_REQNTID, _MAX_THREADS):
        x, y, z = struct.unpack("<III", value)
        made.threads = x * y * z
        made.block = (x, y, z) if number == _REQNTID else made.block
    elif number == _CTA_PER_CLUSTER:
        made.cluster = struct.unpack("<III", value)
