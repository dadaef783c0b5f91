"""The finite field GF(2**m) and what a BCH code needs from it: tables, generator, remainders, syndromes.

Everything here is built once when a code is made; the loops over pages in bch.py only look up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PRIMITIVE = {
    9: 0x211,
    10: 0x409,
    11: 0x805,
    12: 0x1053,
    13: 0x201B,
    14: 0x4443,
    15: 0x8003,
}  # Lin and Costello


@dataclass
class Field:
    m: int
    exp: np.ndarray  # uint16, twice the period long: exp[a + b] needs no modulo
    log: np.ndarray  # uint32: as an index it needs no check for negatives
    half: np.ndarray  # uint16: a root y of y*y + y = c, or 0 where there is none (c != 0)

    @property
    def period(self) -> int:
        return 2**self.m - 1


def make_field(m: int) -> Field:
    period = 2**m - 1
    exp, log = np.zeros(2 * period, np.uint16), np.zeros(2**m, np.uint32)
    word = 1
    for power in range(period):
        exp[power] = exp[power + period] = word
        log[word] = power
        word <<= 1
        if word >> m:
            word ^= PRIMITIVE[m]
    half = np.zeros(2**m, np.uint16)
    elements = np.arange(2, 2**m)
    squares = exp[2 * log[elements].astype(np.int64) % period].astype(np.int64)
    half[squares ^ elements] = elements
    return Field(m, exp, log, half)


def minimal_polynomial(field: Field, power: int) -> int:
    """The least polynomial over GF(2), as the bits of an int, that has alpha**power as a root."""
    conjugates, member = [], power % field.period
    while member not in conjugates:
        conjugates.append(member)
        member = 2 * member % field.period
    coefficients = [1]  # lowest first
    for root in conjugates:
        shifted = [0, *coefficients]
        for k, c in enumerate(coefficients):
            if c:
                shifted[k] ^= int(field.exp[int(field.log[c]) + root])
        coefficients = shifted
    return sum(c << k for k, c in enumerate(coefficients))


def generator_polynomial(field: Field, t: int) -> int:
    """The product of the minimal polynomials of alpha, alpha**3, ... alpha**(2t-1)."""
    generator = 1
    for factor in dict.fromkeys(minimal_polynomial(field, j) for j in range(1, 2 * t, 2)):
        product = 0
        for bit in range(factor.bit_length()):
            if factor >> bit & 1:
                product ^= generator << bit
        generator = product
    return generator


def remainder_table(generator: int) -> np.ndarray:
    """T[k, b]: the remainder that byte b at place k of an 8-byte step leaves, left-aligned in words."""
    degree = generator.bit_length() - 1
    words = -(-degree // 64)
    powers, word = [], generator ^ (1 << degree)  # x**degree mod g, then the next 63 powers
    for _ in range(64):
        powers.append(word)
        word <<= 1
        if word >> degree:
            word ^= generator
    table = np.zeros((8, 256, words), np.uint64)
    for place in range(8):
        for byte in range(256):
            total = 0
            for bit in range(8):
                if byte >> bit & 1:
                    total ^= powers[8 * (7 - place) + bit]
            aligned = total << (64 * words - degree)
            table[place, byte] = [aligned >> (64 * (words - 1 - w)) & (2**64 - 1) for w in range(words)]
    return table


def syndrome_table(field: Field, degree: int, t: int) -> np.ndarray:
    """S[n, v]: what value v of the n-th nibble of a left-aligned remainder adds to the t odd syndromes."""
    nibbles = -(-degree // 64) * 16
    odd = np.arange(1, 2 * t, 2)
    table = np.zeros((nibbles, 16, t), np.uint16)
    for nibble in range(nibbles):
        for bit in range(4):
            power = degree - 1 - (4 * nibble + bit)  # the highest power stands first
            if power < 0:
                continue
            values = [v for v in range(16) if v >> (3 - bit) & 1]
            table[nibble, values] ^= field.exp[power * odd % field.period]
    return table
