"""MUFU's functions: how far an answer may be from the exact one, and what it is for what is no number."""

from __future__ import annotations

import numpy as np
from lane_machine import Given, Machine

from tileprobe.targets.simgpu.engine import layout as at

_EDGES = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.0, -1.0, 2.0, 128.0, -126.0, -127.0, -149.0, -150.0, 127.5,
     3e38, -3e38, 1.2e-38, 0.5, 129.0, 130.0, -151.0, 200.0, -200.0, 8e37, 1e-38, 4.0, 0.25, 9.0, -4.0, 1.4e-45],
    np.float32,
)  # fmt: skip


def _flush(x):
    return np.where(np.abs(x) < np.float32(2.0**-126), np.copysign(np.float32(0), x), x)


def _exact(name, x):
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        return {"ex2": np.exp2, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsq": lambda v: 1 / np.sqrt(v)}[name](
            x
        )


def _inputs(seed):
    random = np.random.default_rng(seed)
    wide = random.standard_normal((3, 32)) * 2.0 ** random.integers(-100, 100, (3, 32))
    near = random.uniform(-140, 135, (3, 32))
    return [_EDGES, *wide.astype(np.float32), *np.abs(wide).astype(np.float32), *near.astype(np.float32)]


def _run(machine, address, row, mods=0):
    given = Given(*(np.zeros((4, 32), np.uint32) for _ in range(3)), mods=mods)
    given.a[0] = row
    return machine.run(address, given)["D"][0]


def _close(name, found, x):
    """At most two units in the last place; ex2: 2**-22 relative (PTX ISA, ex2.approx.ftz)."""
    x = _flush(x)
    wanted = _exact(name, x)
    with np.errstate(all="ignore"):
        single = _flush(wanted.astype(np.float32))
    special = ~np.isfinite(single) | (single == 0)
    nan = np.isnan(single)
    if (np.isnan(found) != nan).any() or (found[nan].view(np.uint32) != 0x7FFFFFFF).any():
        return False
    exact = special & ~nan
    if (found[exact].view(np.uint32) != single[exact].view(np.uint32)).any():
        return False
    rest = ~special
    allowed = 2.0**-22 if name == "ex2" else 2.0**-23
    error = np.abs(found[rest].astype(np.float64) - wanted[rest]) / np.abs(wanted[rest])
    return bool((error <= allowed * 1.01).all())


def _high_words(name, address, machine):
    """The high word of a double: the first 20 bits of the function of it."""
    random = np.random.default_rng(5)
    for _ in range(4):
        x = np.abs(random.standard_normal(32) * 2.0 ** random.integers(-300, 300, 32))
        high = (x.view(np.uint64) >> np.uint64(32)).astype(np.uint32)
        cut = (high.astype(np.uint64) << np.uint64(32)).view(np.float64)
        wanted = 1 / cut if name == "rcp64h" else 1 / np.sqrt(cut)
        words = (wanted.view(np.uint64) >> np.uint64(32)).astype(np.int64)
        for mods, sign in ((0, 0), (1 << at.NEGATE, 1 << 31), (1 << at.ABSOLUTE, 0)):
            if sign and name == "rsq64h":
                continue
            found = _run(machine, address, high, mods).astype(np.int64)
            if (np.abs(found - (words | sign)) > 1).any():
                return True
    return _writes_elsewhere(machine, address)


def _writes_elsewhere(machine, address):
    """Whether lanes that do not execute change."""
    given = Given(*(np.full((4, 32), 0x40000000, np.uint32) for _ in range(3)), mask=1)
    return bool((machine.run(address, given)["D"][0, 1:] != given.before[0, 1:]).any())


def functions_wrong(name: str, address: int) -> bool:
    """Whether a handler's answers are further off than the documents allow."""
    machine, function = Machine(), name.removeprefix("mufu_")
    if function.endswith("64h"):
        return _high_words(function, address, machine)
    for x in _inputs(0):
        for mods, given in ((0, x), (1 << at.NEGATE, -x), (1 << at.ABSOLUTE, np.abs(x))):
            found = _run(machine, address, x.view(np.uint32), mods).view(np.float32)
            if not _close(function, found, given):
                return True
    return _writes_elsewhere(machine, address)
