"""What the references of handlers share: the table they are kept in, sources with modifiers, a lane at a time."""

from __future__ import annotations

import numpy as np

REFERENCES, GIVEN = {}, {}
M32, M64 = (1 << 32) - 1, (1 << 64) - 1
SPECIAL = [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x8001, 0x1FFFF, 0x3F800000]
FLOATS = [
    0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000,
    0xFF800000, 0x7FC00000, 0x7F800001, 0x3F7FFFFF, 0x4B000001, 0x477FE000, 0x387FC000, 0x33000001,
]  # fmt: skip


def known(name, given="integers"):
    def keep(function):
        REFERENCES[name], GIVEN[name] = function, given
        return function

    return keep


def signed(x, bits=32):
    x &= (1 << bits) - 1
    return x - (1 << bits) if x >> bits - 1 else x


def wide(rows, lane):
    return int(rows[0, lane]) | int(rows[1, lane]) << 32


def whole(g, n, lane):
    """An integer source with its modifiers, 32 bits."""
    x = int(g.source(n)[0, lane])
    if g.inverted(n):
        x = ~x & M32
    return -x & M32 if g.negated(n) else x


def term(g, n, lane):
    """The same in a sum with carries."""
    x = int(g.source(n)[0, lane])
    if g.inverted(n):
        x = ~x & M32
    return (~x & M32) + 1 if g.negated(n) else x


def each(function):
    """A reference lane by lane: `function(given, lane)` answers an integer, or several by name."""

    def reference(g):
        answers = [function(g, lane) for lane in range(32)]
        if not isinstance(answers[0], dict):
            answers = [{0: answer} for answer in answers]
        return {key: np.array([a[key] for a in answers]) for key in answers[0]}

    return reference


def two_rows(value):
    return {0: value & M32, 1: value >> 32 & M32}
