"""Which part of a GPU an instruction occupies, and how wide a memory access is, by the instruction's name."""

from __future__ import annotations

import re

# The first that fits counts.
_UNITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tensor core", ("HMMA", "IMMA", "QMMA", "DMMA", "HGMMA", "QGMMA", "IGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA",
                     "UTCOMMA", "v_mfma", "v_wmma", "v_smfma")),
    ("async copy", ("LDGSTS", "UTMALDG", "UTMASTG", "UBLKCP", "global_load_lds")),
    ("synchronisation", ("LDGDEPBAR",)),
    ("global memory", ("LDG", "STG", "ATOM", "RED", "LD.", "ST.", "global_", "flat_", "buffer_")),
    ("shared memory", ("LDS", "STS", "ATOMS", "ds_")),
    ("tensor memory", ("LDTM", "STTM", "UTCCP", "LDT", "STT")),
    ("local memory", ("LDL", "STL", "scratch_")),
    ("special function", ("MUFU", "v_exp", "v_log", "v_rcp", "v_rsq", "v_sqrt", "v_sin", "v_cos")),
    ("shuffle", ("SHFL", "REDUX", "VOTE", "MATCH", "ds_bpermute", "v_permlane", "v_readlane")),
    ("synchronisation", ("BAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "WARPGROUP", "MEMBAR", "FENCE", "WARPSYNC",
                         "NANOSLEEP", "s_waitcnt", "s_barrier", "s_wait", "ERRBAR", "CCTL", "UTMACMDFLUSH", "UTCBAR")),
    ("control", ("BRA", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BRX", "s_branch", "s_cbranch", "s_endpgm", "BREAK")),
    ("uniform", ("U", "S2UR", "R2UR", "s_")),
    ("float", ("FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "FSETP", "HADD", "HMUL", "HFMA", "HSETP", "DADD", "DMUL",
               "DFMA", "FCHK", "v_fma", "v_add_f", "v_mul_f", "v_max_f", "v_min_f", "v_sub_f", "v_pk")),
    ("conversion", ("F2F", "F2I", "I2F", "I2I", "F2FP", "PRMT", "I2FP", "v_cvt", "v_perm")),
)  # fmt: skip
_WIDTH = re.compile(r"\.(?:U?S?)(8|16|64|128)(?:\.|$)")
_DWORDS = re.compile(r"(?:_|b)(?:dwordx?(\d?)|b(32|64|96|128))")


def unit_of(opcode: str) -> str:
    """ "integer" is what is left: addresses, masks, counters."""
    return next((name for name, names in _UNITS if opcode.startswith(names)), "integer")


def access_bytes(opcode: str) -> int | None:
    """How many bytes one thread moves; None for what is no access to memory."""
    if unit_of(opcode) not in ("global memory", "shared memory", "async copy", "local memory"):
        return None
    if opcode[0].islower():
        found = _DWORDS.search(opcode)
        if found is None:
            return None
        return int(found[2]) // 8 if found[2] else 4 * int(found[1] or 1)
    if "LDSM" in opcode or "STSM" in opcode:  # matrices of 8 x 8 halves, 4 bytes a thread for each
        return 4 * int(opcode[-1]) if opcode[-1].isdigit() else 4
    if opcode.startswith(("UTMA", "UBLKCP", "LDGDEPBAR")):
        return None
    widths = _WIDTH.findall(opcode)
    return int(widths[-1]) // 8 if widths else 4
