"""Property tests of order: random loads and stores to one buffer, and random loops and branches over tiles.

A program of the grid does one thing after another; what the scheduler fuses or moves must not show. Addresses
overlap on purpose: shifted, reversed, strided, repeated, masked.
"""

from __future__ import annotations

import os

import numpy as np
from cpu_harness import Buffer, kernel, launch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = os.environ.get("TILEPROBE_TEST_EXAMPLES", "")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 25),
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
SIZE = 256  # of the buffer

# Places of N lanes in the buffer; all lie within it for N up to 64.
PLACES = {
    "i": lambda i, n: i,
    "i + 1": lambda i, n: i + 1,
    "i + 7": lambda i, n: i + 7,
    "N - 1 - i": lambda i, n: n - 1 - i,
    "i * 2": lambda i, n: i * 2,
    "i * 3 + 1": lambda i, n: i * 3 + 1,
    "(i + 5) % N": lambda i, n: (i + 5) % n,
    "i // 2": lambda i, n: i // 2,
    "(i * 5) % 16": lambda i, n: (i * 5) % 16,
    "i ^ 1": lambda i, n: i ^ 1,
}
# Stores need places that no two lanes share.
APART = ("i", "i + 1", "i + 7", "N - 1 - i", "i * 2", "i * 3 + 1", "(i + 5) % N", "i ^ 1")
MASKS = {
    "": lambda i, n, k: np.ones(n, bool),
    "i < k": lambda i, n, k: i < k,
    "i >= k": lambda i, n, k: i >= k,
    "i % 3 != 0": lambda i, n, k: i % 3 != 0,
    "(i > 2) & (i < k)": lambda i, n, k: (i > 2) & (i < k),
    "k < 0": lambda i, n, k: np.full(n, k < 0),
}


@st.composite
def steps(draw, names):
    """One statement: (text, function of the buffer and the variables)."""
    kind = draw(st.sampled_from(["load", "load", "store", "store", "sum", "add", "atomic"]))
    mask = draw(st.sampled_from(list(MASKS)))
    condition = f", mask={mask}" if mask and mask != "k < 0" else ", mask=(i >= 0) & (k < 0)" if mask else ""
    target, source = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    if kind == "load":
        place = draw(st.sampled_from(list(PLACES)))
        text = f"{target} = tl.load(X + ({place}){condition}{', other=5' if mask else ''})"

        def load(x, v, n, k):
            i = np.arange(n)
            v[target] = np.where(MASKS[mask](i, n, k), x[PLACES[place](i, n)], 5)

        return text, load
    if kind == "store":
        place = draw(st.sampled_from(APART))

        def store(x, v, n, k):
            i = np.arange(n)
            on = MASKS[mask](i, n, k)
            x[PLACES[place](i, n)[on]] = v[source][on]

        return f"tl.store(X + ({place}), {source}{condition})", store
    if kind == "atomic":
        place = draw(st.sampled_from(list(PLACES)))

        def atomic(x, v, n, k):
            i = np.arange(n)
            on = MASKS[mask](i, n, k)
            np.add.at(x, PLACES[place](i, n)[on], (v[source] & 3)[on])

        return f"tl.atomic_add(X + ({place}), {source} & 3{condition})", atomic
    if kind == "sum":
        other = draw(st.sampled_from(names))

        def total(x, v, n, k):
            v[target] = v[source] - (v[other] & 7).sum(dtype=np.int32)

        return f"{target} = {source} - tl.sum({other} & 7)", total

    def add(x, v, n, k):
        v[target] = ((v[target].astype(np.int64) * 3 + v[source]) & 0xFFFF).astype(np.int32)

    return f"{target} = ({target} * 3 + {source}) & 0xFFFF", add


def run(lines, n, k):
    body = "\n".join(f"    {line}" for line in lines)
    text = f"""
@triton.jit
def kernel(X, k, N: tl.constexpr):
    i = tl.arange(0, N)
    a = i + 100
    b = i * 7
    c = tl.load(X + i)
{body}
    tl.store(X + i * 4, a + b * 2 + c * 3)
"""
    x = Buffer(np.arange(SIZE + 64) * 11 % 1000, "int32")
    launch(kernel(text), 1, x, k, N=n)
    return x.values


def start(n):
    x = (np.arange(SIZE + 64) * 11 % 1000).astype(np.int32)
    i = np.arange(n, dtype=np.int32)
    return x, {"a": i + 100, "b": i * 7, "c": x[:n].copy()}


def finish(x, v, n):
    x[np.arange(n) * 4] = v["a"] + v["b"] * 2 + v["c"] * 3
    return x


@SETTINGS
@given(data=st.data(), n=st.sampled_from([1, 2, 8, 16, 64]))
def test_straight_line(data, n):
    k = data.draw(st.integers(-1, n))
    chosen = [data.draw(steps(("a", "b", "c"))) for _ in range(data.draw(st.integers(2, 9)))]
    x, v = start(n)
    for _, do in chosen:
        do(x, v, n, k)
    np.testing.assert_array_equal(run([text for text, _ in chosen], n, k), finish(x, v, n))


@st.composite
def blocks(draw, depth):
    """Statements with loops and branches around some of them: lines, and what they do."""
    lines, actions = [], []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["step", "step", "for", "if", "while"])) if depth else "step"
        if kind == "step":
            text, do = draw(steps(("a", "b", "c")))
            lines.append(text)
            actions.append(do)
            continue
        inner_lines, inner = draw(blocks(depth - 1))
        head, repeat = draw(heads(kind, depth))
        lines += [*head, *(f"    {line}" for line in inner_lines)]
        if kind == "while":
            lines.append(f"    w{depth} += 2")
        actions.append(lambda x, v, n, k, inner=inner, repeat=repeat: [
            do(x, v, n, k) for _ in range(repeat(v, n, k)) for do in inner
        ])  # fmt: skip
    return lines, actions


@st.composite
def heads(draw, kind, depth):
    """The line that opens a loop or a branch, and how often its body runs."""
    count = draw(st.integers(0, 3))
    if kind == "for":
        known = draw(st.booleans())
        text = f"for t{depth} in range({count if known else f'{count} + (k - k)'}):"
        return [text], lambda v, n, k: count
    if kind == "while":
        return [f"w{depth} = 0", f"while w{depth} < {2 * count}:"], lambda v, n, k: count
    limit = draw(st.integers(-1, 9))
    if draw(st.booleans()):
        return [f"if k > {limit}:"], lambda v, n, k: int(k > limit)
    return [f"if tl.max(a & 31) > {limit * 4}:"], lambda v, n, k: int((v["a"] & 31).max() > limit * 4)


@SETTINGS
@given(data=st.data(), n=st.sampled_from([1, 8, 16, 32]))
def test_loops_and_branches(data, n):
    k = data.draw(st.integers(-1, n))
    lines, actions = data.draw(blocks(2))
    x, v = start(n)
    for do in actions:
        do(x, v, n, k)
    np.testing.assert_array_equal(run(lines, n, k), finish(x, v, n))
