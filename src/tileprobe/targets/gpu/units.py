"""Which part of a GPU an instruction occupies, and how wide a memory access is, by the instruction's name."""

from __future__ import annotations

import re

# The first that fits counts.
_UNITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tensor core", ("HMMA", "IMMA", "QMMA", "DMMA", "HGMMA", "QGMMA", "IGMMA", "UTCHMMA", "UTCQMMA", "UTCIMMA",
                     "UTCOMMA", "v_mfma", "v_wmma", "v_smfma")),
    ("async copy", ("LDGSTS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "global_load_lds",
                    "buffer_load_lds")),
    ("synchronisation", ("LDGDEPBAR",)),
    ("shuffle", ("SHFL", "REDUX", "VOTE", "MATCH", "ds_bpermute", "ds_permute", "ds_swizzle", "v_permlane",
                 "v_readlane")),
    ("shared memory", ("ATOMS",)),
    ("global memory", ("LDG", "STG", "ATOM", "RED", "LD.", "ST.", "global_", "flat_", "buffer_")),
    ("shared memory", ("LDS", "STS", "ds_")),
    ("tensor memory", ("LDTM", "STTM", "UTCCP", "LDT", "STT")),
    ("local memory", ("LDL", "STL", "scratch_")),
    ("special function", ("MUFU", "v_exp", "v_log", "v_rcp", "v_rsq", "v_sqrt", "v_sin", "v_cos")),
    ("synchronisation", ("BAR", "DEPBAR", "LDGDEPBAR", "SYNCS", "WARPGROUP", "MEMBAR", "FENCE", "WARPSYNC",
                         "NANOSLEEP", "s_waitcnt", "s_barrier", "s_wait", "ERRBAR", "CCTL", "UTMACMDFLUSH", "UTCBAR")),
    ("control", ("BRA", "EXIT", "RET", "CALL", "BSSY", "BSYNC", "BRX", "s_branch", "s_cbranch", "s_endpgm", "BREAK")),
    ("uniform", ("U", "S2UR", "R2UR", "s_")),
    ("float", ("FADD", "FMUL", "FFMA", "FSEL", "FMNMX", "FSETP", "HADD", "HMUL", "HFMA", "HSETP", "HMNMX", "DADD",
               "DMUL", "DFMA", "DSETP", "DMNMX", "FCHK", "FSET", "FRND", "v_fma", "v_pk", "v_dot2_f", "v_div_")),
    ("conversion", ("F2F", "F2I", "I2F", "I2I", "F2FP", "PRMT", "I2FP", "v_cvt", "v_perm")),
)  # fmt: skip
_WIDTH = re.compile(r"\.(?:U?S?)(8|16|64|128|256)(?:\.|$)")
_DWORDS = re.compile(
    r"(?:_|b)(?:dwordx?(\d?)|[bui](8|16|32|64|96|128)|(ubyte|sbyte|byte)|(ushort|sshort|short))"
)
_PAIRED = re.compile(r"ds_(?:read2|write2|load_2addr|store_2addr)")  # two words of a thread
_VECTOR_FLOAT = re.compile(r"v_\w*_f(16|32|64)")  # AMD's names end with what they work on


def unit_of(opcode: str) -> str:
    """ "integer" is what is left: addresses, masks, counters."""
    named = next((name for name, names in _UNITS if opcode.startswith(names)), "integer")
    return "float" if named == "integer" and _VECTOR_FLOAT.match(opcode) else named


def access_bytes(opcode: str) -> int | None:
    """How many bytes one thread moves; None for what is no access to memory."""
    if unit_of(opcode) not in ("global memory", "shared memory", "async copy", "local memory"):
        return None
    if opcode[0].islower():
        found = _DWORDS.search(opcode)
        if found is None:
            return 4 if "atomic" in opcode or opcode.startswith(("ds_add", "ds_max", "ds_min")) else None
        dwords, bits, byte, short = found.groups()
        size = int(bits) // 8 if bits else 1 if byte else 2 if short else 4 * int(dwords or 1)
        return 2 * size if _PAIRED.match(opcode) else size
    if "LDSM" in opcode or "STSM" in opcode:  # matrices of 8 x 8 halves, 4 bytes a thread for each
        return 4 * int(opcode[-1]) if opcode[-1].isdigit() else 4
    if opcode.startswith(("UTMA", "UBLKCP", "LDGDEPBAR")):
        return None
    widths = _WIDTH.findall(opcode)
    return int(widths[-1]) // 8 if widths else 4
