"""Page codes: the paper's outlier code and the baselines, chosen by name.

`make_codec("paper")`, `"paper:signed"`, `"none"`, `"hamming"`, `"bch"` (as much spare area as the paper's
code) or `"bch:40"` (40 errors a sector); each encodes rows of values into stored pages and decodes them
again.
"""

from __future__ import annotations

from tileprobe.errors import TileProbeError
from tileprobe.targets.cambricon.functional.ecc.base import NoCode, PageCodec

NAMES = ("none", "paper", "paper:signed", "hamming", "bch", "bch:T")


def make_codec(name: str, page_bytes: int = 16384, spare_bytes: int = 1664, value_bits: int = 8) -> PageCodec:
    """The code of that name for pages of that size; an error when it does not fit the spare area."""
    from tileprobe.targets.cambricon.functional.ecc.bch import BchCode
    from tileprobe.targets.cambricon.functional.ecc.hamming import HammingCode
    from tileprobe.targets.cambricon.functional.ecc.outlier import OutlierCode

    kind, _, option = name.partition(":")
    sizes = (page_bytes, spare_bytes, value_bits)
    if kind == "paper":
        return OutlierCode(*sizes, threshold=option or "magnitude")
    if kind == "bch" and (not option or option.isdecimal()):
        return BchCode(*sizes, t=int(option) if option else None)
    if name in ("none", "hamming"):
        return NoCode(*sizes) if name == "none" else HammingCode(*sizes)
    raise TileProbeError(f"no error correction named {name!r}: expected one of {', '.join(NAMES)}")
