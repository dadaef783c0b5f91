"""What became of the values that bit errors hit: the counts that only the writer of a page can make.

In: the values as written, the stored pages after errors, and the code. Out: an `Outcome`. Every value that
was hit is exactly one of corrected, zeroed and missed; a value that was not hit can still be harmed
(`collateral`), for example a protected value whose record was lost and which is then taken for a flipped
one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields

import numpy as np

from tileprobe.targets.cambricon.functional.ecc.base import ZEROED, Counts, PageCodec
from tileprobe.targets.cambricon.functional.ecc.outlier import OutlierCode
from tileprobe.targets.cambricon.functional.inject import Flips
from tileprobe.targets.jit import jit


@dataclass
class Outcome:
    flips_data: int = 0
    flips_spare: int = 0
    hit: int = 0  # values with at least one flipped bit in the data area
    corrected: int = 0  # hit, and right again
    zeroed: int = 0  # hit, and set to zero by the threshold rule
    missed: int = 0  # hit, not zeroed, and wrong
    collateral: int = 0  # not hit, yet not what was written
    values: int = 0  # looked at: those that belong to the matrix
    hit_unused: int = 0  # hit where a page holds nothing of the matrix; not in the counts above
    misled: int = 0  # records that two errors or more led to an address that is not theirs
    decoder: Counts = field(default_factory=Counts)

    def __iadd__(self, other: Outcome) -> Outcome:
        for one in fields(Outcome):
            if one.name != "decoder":
                setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        self.decoder += other.decoder
        return self

    def as_dict(self) -> dict:
        return asdict(self)


@jit
def _tally(written, raw, out, fate, used):
    hit = corrected = zeroed = missed = collateral = values = unused = 0
    for p in range(written.shape[0]):
        for i in range(written.shape[1]):
            if not used[p, i]:
                unused += raw[p, i] != written[p, i]
                continue
            values += 1
            right = out[p, i] == written[p, i]
            if raw[p, i] == written[p, i]:
                collateral += not right
                continue
            hit += 1
            if fate[p, i] == ZEROED:
                zeroed += 1
            elif right:
                corrected += 1
            else:
                missed += 1
    return hit, corrected, zeroed, missed, collateral, values, unused


def audit(
    codec: PageCodec, written: np.ndarray, stored: np.ndarray, flips: Flips, used: np.ndarray | None = None
) -> tuple[np.ndarray, Outcome]:
    """Decodes `stored` and compares with what was written; (the decoded values, the outcome).

    `used` marks the values that count; the rest of a page that a matrix does not fill is told apart.
    """
    fate = np.zeros(written.shape, np.uint8)
    out, counts = codec.decode(stored, fate)
    raw = codec.data_of(stored)
    used = np.ones(written.shape, np.bool_) if used is None else used
    tally = (int(n) for n in _tally(written, raw, out, fate, used))
    outcome = Outcome(flips.data, flips.spare, *tally, decoder=counts)
    if isinstance(codec, OutlierCode):
        meant, found = codec.record_addresses(codec.encode(written)), codec.record_addresses(stored)
        outcome.misled = int(((found != meant) & (found >= 0)).sum())
    return out, outcome
