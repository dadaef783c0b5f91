"""What threads of the simulated GPU counted of accesses, put together by hand."""

import numpy as np

from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.timing.touched import _added, _different, _footprint

FIELDS = {name: getattr(tl, name) // 8 for name in dir(tl) if name.startswith("X_")}


def counted(**fields):
    table = np.zeros((1, 2, max(FIELDS.values()) + 1), np.int64)
    for name, value in fields.items():
        table[0, 0, FIELDS[f"X_{name.upper()}"]] = value
    return table


def test_sums_are_added_and_strides_are_voted_for():
    threads = [counted(times=3, votes=2, stride=4, bits=16), counted(times=5, votes=9, stride=68, bits=4)]
    for tables in (threads, threads[::-1]):
        row = _added([table.copy() for table in tables])[0, 0]
        found = {name: int(row[FIELDS[name]]) for name in ("X_TIMES", "X_STRIDE", "X_BITS")}
        assert found == {"X_TIMES": 8, "X_STRIDE": 68, "X_BITS": 20}


def test_sectors_of_different_lines_are_different():
    """Two programs touch two sectors of one line; the first one of a line far off, too, and one sector twice."""
    kind = [("sectors", np.int64), ("program", np.int64), ("row", np.int64)]
    lines = np.array([(0b0011, 0, 0), (0b0011, 1, 0), (16 * 7 + 1, 0, 0), (16 * 7 + 1, 0, 0)], kind)
    distinct = _different(lines)
    assert sorted(set(distinct[0][0].tolist())) == [0, 1, 28]
    assert _footprint(distinct, [0], 2) == {"program": 32 * 5 / 2, "sample": 32 * 3}
    assert _footprint(distinct, [1], 2) == {}
