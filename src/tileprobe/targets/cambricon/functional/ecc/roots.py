"""The roots of an error locator over GF(2**m), by Berlekamp's trace algorithm.

In: a polynomial (lowest coefficient first). Out: the powers of its roots' inverses, that is the error
positions, or -1 when it does not split into distinct roots in the field. A search through all positions
(Chien's, which hardware does in parallel) costs several times as much here.
"""

from __future__ import annotations

import numpy as np

from tileprobe.targets.jit import jit


@jit
def times(a, b, exp, log):
    return np.uint16(0) if a == 0 or b == 0 else exp[log[a] + log[b]]


@jit
def _make_monic(poly, degree, exp, log, period):
    shift = period - log[poly[degree]]
    if shift == period:  # monic already
        return
    for k in range(degree + 1):
        if poly[k]:
            poly[k] = exp[log[poly[k]] + shift]


@jit
def _reduce(poly, degree, modulus, modulus_degree, exp, log):
    """poly mod a monic modulus, in place; the degree of what is left, -1 for zero."""
    while degree >= modulus_degree:
        lead = poly[degree]
        if lead:
            shift, log_lead = degree - modulus_degree, log[lead]
            for k in range(modulus_degree):
                if modulus[k]:
                    poly[shift + k] ^= exp[log_lead + log[modulus[k]]]
            poly[degree] = 0
        degree -= 1
    while degree >= 0 and poly[degree] == 0:
        degree -= 1
    return degree


@jit
def _powers(poly, degree, field, table, powers):
    """powers[i] = x**(2**i) mod the monic poly, for i up to m; table[j] = x**(degree + j) mod poly."""
    exp, log, _, period = field
    m = powers.shape[0] - 1
    for k in range(degree):
        table[0, k] = poly[k]
    for j in range(1, degree - 1):
        lead = table[j - 1, degree - 1]
        for k in range(degree - 1, 0, -1):
            table[j, k] = table[j - 1, k - 1] ^ times(lead, poly[k], exp, log)
        table[j, 0] = times(lead, poly[0], exp, log)
    powers[0, :degree] = 0
    powers[0, 1] = 1
    for i in range(1, m + 1):
        powers[i, :degree] = 0
        for k in range(degree):
            value = powers[i - 1, k]
            if value == 0:
                continue
            log_square = 2 * log[value]
            if log_square >= period:
                log_square -= period
            if 2 * k < degree:
                powers[i, 2 * k] ^= exp[log_square]
                continue
            for c in range(degree):
                entry = table[2 * k - degree, c]
                if entry:
                    powers[i, c] ^= exp[log_square + log[entry]]


@jit
def _trace(powers, degree, power, exp, log, period, out):
    """The trace of alpha**power times x, as a polynomial: the sum of its m conjugates."""
    out[:degree] = 0
    shift = power
    for i in range(powers.shape[0] - 1):
        for k in range(degree):
            value = powers[i, k]
            if value:
                out[k] ^= exp[shift + log[value]]
        shift = 2 * shift % period


@jit
def _gcd(a, a_degree, b, b_degree, exp, log, period):
    """The monic greatest common divisor, left in `a`; its degree. Both are used up."""
    while b_degree >= 0:
        _make_monic(b, b_degree, exp, log, period)
        a_degree = _reduce(a, a_degree, b, b_degree, exp, log)
        for k in range(max(a_degree, b_degree) + 1):
            a[k], b[k] = b[k], a[k]
        a_degree, b_degree = b_degree, a_degree
    return a_degree


@jit
def _quotient(poly, degree, divisor, divisor_degree, exp, log, out):
    """poly / a monic divisor that divides it; poly is used up."""
    for top in range(degree, divisor_degree - 1, -1):
        lead = poly[top]
        out[top - divisor_degree] = lead
        for k in range(divisor_degree + 1):
            poly[top - divisor_degree + k] ^= times(lead, divisor[k], exp, log)


@jit
def _solve(poly, degree, field, positions, found):
    """The inverse powers of the roots of a monic polynomial of degree 1 or 2; the new count, or -1."""
    exp, log, half, period = field
    if poly[0] == 0 or (degree == 2 and poly[1] == 0):
        return -1
    if degree == 1:
        positions[found] = (period - log[poly[0]]) % period
        return found + 1
    # x^2 + b x + c with x = b y becomes y^2 + y = c / b^2
    constant = exp[(log[poly[0]] + 2 * (period - log[poly[1]])) % period]
    y = np.int64(half[constant])
    if y == 0:
        return -1
    for other in range(2):  # y and y + 1; neither is zero, as the constant is not
        positions[found + other] = (2 * period - log[poly[1]] - log[y ^ other]) % period
    return found + 2


@jit
def find_positions(poly, degree, field, work, positions):
    """How many positions were written; -1 when the polynomial does not split into distinct roots."""
    exp, log, _, period = field
    _make_monic(poly, degree, exp, log, period)
    if degree <= 2:
        return _solve(poly, degree, field, positions, 0)
    table, powers, factors, degrees, trace, a, b = work
    _powers(poly, degree, field, table, powers)
    m = powers.shape[0] - 1
    for k in range(degree):
        if powers[m, k] != (1 if k == 1 else 0):
            return -1  # x**(2**m) is not x: some root lies outside the field, or twice inside
    factors[0, : degree + 1] = poly[: degree + 1]
    degrees[0] = degree
    count, found, power = 1, 0, 0
    while count and power <= m:
        if power < m:
            _trace(powers, degree, power, exp, log, period, trace)
        power += 1
        for f in range(count - 1, -1, -1):
            size = degrees[f]
            if size > 2:
                a[: size + 1] = factors[f, : size + 1]
                b[:degree] = trace[:degree]
                left = _reduce(b, degree - 1, a, size, exp, log)
                part = _gcd(a, size, b, left, exp, log, period)
                if part == size or part < 1:
                    continue
                b[: size + 1] = factors[f, : size + 1]
                _quotient(b, size, a, part, exp, log, factors[count])
                degrees[count] = size - part
                factors[f, : part + 1] = a[: part + 1]
                degrees[f] = part
                count += 1
        kept = 0
        for f in range(count):
            if degrees[f] <= 2:
                found = _solve(factors[f], degrees[f], field, positions, found)
                if found < 0:
                    return -1
                continue
            if kept != f:
                factors[kept, : degrees[f] + 1] = factors[f, : degrees[f] + 1]
                degrees[kept] = degrees[f]
            kept += 1
        count = kept
    return found if count == 0 else -1


@jit
def make_work(t, m):
    """Scratch space for locators of degree up to t."""
    u16 = np.uint16
    return (
        np.zeros((t + 1, t + 1), u16), np.zeros((m + 1, t + 1), u16), np.zeros((t + 1, t + 2), u16),
        np.zeros(t + 1, np.int64), np.zeros(t + 2, u16), np.zeros(t + 2, u16), np.zeros(t + 2, u16),
    )  # fmt: skip
