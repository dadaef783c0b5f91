"""Which machine instructions do the work of an op of Triton's, by how their names begin."""

from __future__ import annotations

import re

from tileprobe.targets.gpu.units import access_bytes

_MMA = ("HMMA", "IMMA", "QMMA", "DMMA", "BMMA", "OMMA", "v_mfma", "v_wmma", "v_smfma")
_SHARED_READ = ("LDS", "LDSM", "ds_read", "ds_load")
_SHARED_WRITE = ("STS", "STSM", "ds_write", "ds_store")
_ATOMIC = ("ATOM.", "ATOMG")  # those of shared memory are other ops' (histograms)
_READ = ("LDG.", "global_load", "buffer_load", "LD.")
_WRITE = ("STG", "global_store", "buffer_store")

OPCODES: dict[str, tuple[str, ...]] = {
    "tt.dot": _MMA,
    "tt.dot_scaled": _MMA,
    "ttng.warp_group_dot": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "ttng.warp_group_dot_wait": ("WARPGROUP.DEPBAR",),
    "ttng.tc_gen5_mma": ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"),
    "ttng.tc_gen5_mma_scaled": ("UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCMXQMMA"),
    "ttng.tmem_load": ("LDTM",),
    "ttng.tmem_store": ("STTM",),
    "ttng.tmem_alloc": ("STTM",),
    "ttng.tmem_copy": ("UTCCP",),
    "ttg.async_copy_global_to_local": ("LDGSTS", "global_load_lds", "buffer_load_lds"),
    "amdg.buffer_load_to_local": ("buffer_load_lds",),
    "ttg.async_wait": ("DEPBAR", "s_waitcnt"),
    "ttng.async_tma_copy_global_to_local": ("UTMALDG",),
    "ttng.async_tma_copy_local_to_global": ("UTMASTG",),
    "ttng.async_tma_store_wait": ("DEPBAR",),
    "ttng.wait_barrier": ("SYNCS.PHASECHK",),
    "ttng.arrive_barrier": ("SYNCS.ARRIVE",),
    "ttg.local_load": _SHARED_READ,
    "ttg.local_store": _SHARED_WRITE,
    "ttg.local_alloc": _SHARED_WRITE,
    "tt.load": _READ,
    "tt.store": _WRITE,
    "amdg.buffer_load": ("buffer_load",),
    "amdg.buffer_store": ("buffer_store",),
    "tt.atomic_rmw": (*_ATOMIC, "RED.", "REDG", "global_atomic", "buffer_atomic"),
    "tt.atomic_cas": (*_ATOMIC, "global_atomic", "buffer_atomic"),
}

# Ops that exchange values through shared memory of their own, if there is no shorter way.
EXCHANGES = frozenset(
    [
        "tt.reduce",
        "tt.scan",
        "tt.gather",
        "tt.histogram",
        "ttg.convert_layout",
        "tt.atomic_rmw",
        "tt.atomic_cas",
    ]
)
_WIDE = re.compile(r"(?:LDTM|STTM)\S*\.x(\d+)")


def works_for(opcode: str, opcodes: tuple[str, ...]) -> bool:
    """Whether an instruction does the work of ops that have such ones. Loads that go to shared memory are copies."""
    return opcode.startswith(opcodes) and ("_lds" not in opcode or any("_lds" in name for name in opcodes))


def weight(opcode: str) -> int:
    """How much of an op's work an instruction does, among those that do it: bytes of an access, so that two narrow ones
    are as much as a wide one."""
    if wide := _WIDE.match(opcode):
        return int(wide[1])
    return access_bytes(opcode) or 1


# Ops that leave more of their instructions elsewhere: the slow way of a wait, the announcement of a copy.
SYNCHRONISING = frozenset(
    [
        "ttng.wait_barrier",
        "ttng.arrive_barrier",
        "ttng.warp_group_dot_wait",
        "ttg.async_wait",
        "ttng.async_tma_store_wait",
    ]
)

# What records are made of: clocks, stores, addresses, predicates. Registers that are spilled are the compiler's doing.
RECORD_OPCODES = (
    "CS2R", "CS2UR", "S2R", "S2UR", "STG", "LDG", "LDC", "ULDC", "MOV", "UMOV", "IMAD", "UIMAD", "ISETP", "UISETP",
    "IADD", "UIADD", "VIADD", "SHF", "USHF", "LEA", "ULEA", "SEL", "USEL", "LOP3", "ULOP3", "PLOP3", "UPLOP3", "P2R",
    "R2P", "R2UR", "IMNMX", "VIMNMX", "SGXT", "I2F", "F2I", "MUFU", "I2I", "PRMT", "NOP", "VOTEU", "BRA", "s_",
    "v_mov", "v_dual_mov_b32", "v_add", "v_lshl", "v_cmp", "v_cndmask", "v_and", "v_or", "v_mul", "v_mad", "v_sub",
    "v_readfirstlane", "global_store", "global_load", "flat_store", "buffer_store",
)  # fmt: skip
# And where they are collected in shared memory.
SHARED_OPCODES = ("STS", "LDS", "WARPSYNC", "ds_write", "ds_read", "ds_store", "ds_load")
