"""Numbers of the micro-ops that are no handlers over lanes. Those come first, these follow from `FIRST` on.

Each belongs to a family: a function that Numba compiles, with a signature that all of them share. A family answers OK
(go on at the next instruction), LEAVE (the warp's own place in the code was set), STAY (the warp waits), SYSTEM (a
function of the driver is called), or a fault.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types

FIRST = 1024
LEAVE, STAY, SYSTEM = 64, 65, 66
# number, micro-op, warp, program, constants, mask, place in the code
SIGNATURE = types.int64(*([types.int64] * 7))
FAMILIES: dict[str, Any] = {}  # by the name of a micro-op: the function that executes it
_NAMES = (
    # control
    "BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "CALL", "CALL_REGISTER", "RET", "BRX", "BAR", "NOP", "TRAP",
    "BMOV_READ", "BMOV_WRITE", "LEPC", "NANOSLEEP", "BRA_DIV",
    # memory
    "LDG", "STG", "LDS", "STS", "LDL", "STL", "LD", "ST", "LDC", "LDSM", "STSM", "LDGSTS", "LDGDEPBAR", "DEPBAR",
    "ATOMG", "ATOMS", "ATOM", "ARRIVES", "ATOMS_ARRIVE",
    # between lanes
    "SHFL", "VOTE", "VOTEU", "R2UR", "REDUX", "ELECT", "MATCH",
    # one lane at a time
    "CS2R", "FRND", "F2I", "I2F_ANY", "F2F_ANY", "MUFU_SLOW", "DIRECTED_64", "PACK_F8", "UNPACK_F8", "MOVM",
    # tensor cores
    "HMMA", "IMMA", "DMMA", "HGMMA", "IGMMA",
    # sm_90
    "SYNCS_EXCH", "SYNCS_ARRIVE", "SYNCS_PHASE", "SYNCS_CCTL", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMACMDFLUSH",
    "UCGABAR_ARV", "UCGABAR_WAIT", "STAS", "WARPGROUP", "USETMAXREG", "UBLKCP", "FENCE", "UTMAPF",
    # checks
    "WATCH",
)  # fmt: skip
NUMBERS = {name: FIRST + n for n, name in enumerate(_NAMES)}


def family(*names: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorates the function that executes micro-ops of these names."""
    from tileprobe.targets.jit import entry

    def keep(function: Callable[..., Any]) -> Any:
        made = entry(SIGNATURE)(function)
        for name in names:
            assert name in NUMBERS, name
            assert name not in FAMILIES, name
            FAMILIES[name] = made
        return made

    return keep
