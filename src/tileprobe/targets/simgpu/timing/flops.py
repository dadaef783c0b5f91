"""How many floating-point operations a launch issued, by its machine code: a product by its shape, others by the lanes
that were on: not those that a guard had switched off, or that went another way. Products are the tensor cores', and
counted apart, too: what else there is has another roof."""

from __future__ import annotations

import math
import re

import numpy as np

_LANES = 32
_LANE = {  # by instruction: one operation, two where it multiplies and adds, twice as many on pairs of halves
    "FADD": 1, "FMUL": 1, "FFMA": 2, "FMNMX": 1, "MUFU": 1, "DADD": 1, "DMUL": 1, "DFMA": 2, "DMNMX": 1,
    "HADD2": 2, "HMUL2": 2, "HFMA2": 4, "HMNMX2": 2, "FRND": 1, "FSWZADD": 1,
}  # fmt: skip
_SHAPE = re.compile(r"^(\d+)x(\d+)x(\d+)$")  # of a product of a warp group: 64x128x16
_WARP_SHAPES = {  # of a warp's product: digits without anything between them
    "884": (8, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16), "16832": (16, 8, 32), "8816": (8, 8, 16),
    "8832": (8, 8, 32), "16864": (16, 8, 64), "1684": (16, 8, 4), "16808": (16, 8, 8),
}  # fmt: skip
_WARPS = 4  # of a group, each of which issues its product
_PRODUCTS = ("HMMA", "IMMA", "DMMA", "HGMMA", "IGMMA", "QGMMA")


def flops_of(text: str) -> float:
    """Of one issue by one warp with all of its lanes."""
    root, *mods = _opcode(text)
    if root in ("HMMA", "IMMA", "DMMA"):
        shape = next((_WARP_SHAPES[mod] for mod in mods if mod in _WARP_SHAPES), None)
        return 2.0 * shape[0] * shape[1] * shape[2] if shape else 0.0
    if root in ("HGMMA", "IGMMA", "QGMMA"):
        found = next((match for mod in mods if (match := _SHAPE.match(mod))), None)
        return 2.0 * math.prod(float(n) for n in found.groups()) / _WARPS if found else 0.0
    return float(_LANES * _LANE.get(root, 0))


def _opcode(text: str) -> list[str]:
    return next((word for word in text.split() if not word.startswith("@")), "").rstrip(";").split(".")


def of_tensor_cores(text: str) -> bool:
    return _opcode(text)[0] in _PRODUCTS


def issued_flops(texts: list[str], lanes: np.ndarray) -> float:
    """`lanes` of each instruction: those that were on, of all its issues."""
    return float(sum(count * flops_of(text) for text, count in zip(texts, lanes.tolist()) if count)) / _LANES
