"""Cases for lanes that look at each other, and for atomics."""

from __future__ import annotations

import numpy as np
from exact_floats import BF16, F16, F32, F64, added, encoded, flushed, read
from family_machine import ALL, LANES, SHARED, UR, Bench, K, R, bits, chosen, group, near
from family_memory import SOME, look

from tileprobe.targets.simgpu.engine import atomics as a
from tileprobe.targets.simgpu.engine import exchange as x
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.lanes_address import PAIR_A

MASKS = (ALL, SOME, 1 << 17)


@group
def shuffles():
    """As the PTX ISA writes it, `shfl.sync`: segments and last lanes of each lane's own."""
    made = []
    for mode in (x.UP, x.DOWN, x.BFLY, x.IDX):
        for seed, mask in enumerate((*MASKS, ALL, ALL)):
            b = Bench(seed=seed)
            target = R(0) if seed == 1 else R(20)  # a result may be in the place of its source
            segment = b.random.choice([0, 0x10, 0x18, 0x1C, 0x1E, 0x1F], 32)
            clamp = b.random.choice([0, 3, 7, 31], 32)
            amount = b.random.integers(0, 40, 32)
            if seed > 2:  # none goes outside, or all do
                segment[:], clamp[:], amount[:] = 0, (0 if mode == x.UP else 31), 1 if seed == 3 else 31
            b.rows(R(4))[0], b.rows(R(8))[0] = amount, segment << 8 | clamp

            def then(b=b, mode=mode, mask=mask, segment=segment, clamp=clamp, amount=amount, target=target):
                values, inside = b.rows(R(0))[0].copy(), []
                for lane in LANES:
                    s, by = int(segment[lane]), int(amount[lane]) & 31
                    last = lane & s | int(clamp[lane]) & ~s & 31
                    j = {
                        x.UP: lane - by,
                        x.DOWN: lane + by,
                        x.BFLY: lane ^ by,
                        x.IDX: lane & s | by & ~s & 31,
                    }[mode]
                    good = j >= last if mode == x.UP else j <= last
                    inside.append(good)
                    if mask >> int(lane) & 1:
                        b.rows(target)[0, lane] = values[j if good else lane]
                b.predicate(3, b.predicate(3) & ~mask | bits(inside) & mask)

            b.predicate(3, 0x12345678)
            made.append(b.case("SHFL", then, mask, D=target, A=R(0), B=R(4), C=R(8), PD=3, I0=mode))
    return made


@group
def votes():
    made = []
    for op in ("VOTE", "VOTEU"):
        for how in (x.ANY, x.EVERY, x.SAME):
            for negated in (False, True):
                for mask, held in (
                    (ALL, 0),
                    (ALL, ALL),
                    (SOME, ~SOME & ALL),
                    (SOME, SOME),
                    (SOME, 0x1000F05),
                    (2, 5),
                ):
                    b = Bench()
                    b.predicate(2, held)
                    b.predicate(4, 0x0F0F0F0F)

                    def then(b=b, op=op, how=how, negated=negated, mask=mask, held=held):
                        on = (~held if negated else held) & mask
                        holds = {x.ANY: on != 0, x.EVERY: on == mask, x.SAME: on in (0, mask)}[how]
                        where = ALL if op == "VOTEU" else mask
                        b.rows(R(20))[0, chosen(where)] = on
                        b.predicate(4, b.predicate(4) & ~where | (where if holds else 0))

                    made.append(
                        b.case(op, then, mask, D=R(20), PD=4, PS=2 | (at.NEGATED if negated else 0), I0=how)
                    )
    return made


@group
def one_for_all():
    """R2UR, ELECT, and what happens where no lane executes."""
    made = []
    for mask in MASKS:
        b = Bench()
        first = (mask & -mask).bit_length() - 1

        def spread(b=b, first=first):
            b.rows(UR(5))[:] = b.rows(R(3))[0, first]

        def elected(b=b, first=first, mask=mask):
            b.predicate(1, b.predicate(1) & ~mask | 1 << first)

        b.predicate(1, 0xA5A5A5A5)
        made.append(b.case("R2UR", spread, mask, D=UR(5), A=R(3)))
        made.append(b.case("ELECT", elected, mask, PD=1))
    for op in ("SHFL", "VOTE", "VOTEU", "R2UR", "REDUX", "ELECT", "MATCH"):
        made.append(Bench().case(op, None, 0, D=R(20), A=R(0), B=R(4), C=R(8), PD=1))
    return made


@group
def reductions():
    made = []
    folds = {
        x.AND: np.bitwise_and,
        x.OR: np.bitwise_or,
        x.XOR: np.bitwise_xor,
        x.SUM: np.add,
        x.MIN: np.minimum,
        x.MAX: np.maximum,
    }
    for how, fold in folds.items():
        for sign in (0, 1):
            for seed, mask in enumerate((*MASKS, ALL, 0x80000001)):
                b = Bench(seed=seed)
                if seed > 2:
                    b.rows(R(3))[0] = b.random.choice([7, 0x80000001, 0xFFFFFFFE, 3], 32)
                if seed == 1:  # the first is the answer, or the last
                    b.rows(R(3))[0, 0] = 0x80000000 if how == x.MIN and sign else 0

                def then(b=b, fold=fold, sign=sign, mask=mask):
                    values = b.rows(R(3))[0, chosen(mask)]
                    with np.errstate(over="ignore"):
                        b.rows(UR(5))[:] = fold.reduce(
                            values.view(np.int32) if sign else values, dtype=np.int32 if sign else np.uint32
                        ).astype(np.uint32)

                made.append(b.case("REDUX", then, mask, D=UR(5), A=R(3), I0=how, I1=sign))
    return made


@group
def matches():
    made = []
    for every in (0, 1):
        for words in (1, 2):
            for mask, values in ((ALL, 3), (SOME, 2), (SOME, 1), (ALL, 1), (4, 1)):
                b = Bench(seed=values)
                b.rows(R(4), 2)[:] = b.random.integers(0, values, (2, 32))
                b.predicate(1, 0xA5A5A5A5)

                def then(b=b, every=every, words=words, mask=mask):
                    rows, on = b.rows(R(4), words), LANES[chosen(mask)]
                    same = [sum(1 << int(k) for k in on if (rows[:, k] == rows[:, n]).all()) for n in on]
                    if every:
                        whole = all(s == mask for s in same)
                        b.rows(R(20))[0, on] = mask if whole else 0
                        b.predicate(1, b.predicate(1) & ~mask | (mask if whole else 0))
                    else:
                        b.rows(R(20))[0, on] = same

                made.append(b.case("MATCH", then, mask, D=R(20), A=R(4), PD=1, I0=every, I1=words))
    return made


# -- atomics -------------------------------------------------------------------------------------------------------


def signed(value, width):
    return value - (1 << width) if value >> width - 1 else value


def summed(old, value, kind):
    if kind in ("F32", "F64"):
        form = F32 if kind == "F32" else F64
        if kind == "F32":
            old, value = flushed(old), flushed(value)
        return encoded(added(read(old, form), read(value, form)), form, flush=kind == "F32")
    form = F16 if kind == "F16x2" else BF16
    low, high = (
        encoded(added(read(old >> n & 0xFFFF, form), read(value >> n & 0xFFFF, form)), form) for n in (0, 16)
    )
    return low | high << 16


def result(old, value, other, operation, kind):
    width = 64 if "64" in kind else 32
    top = (1 << width) - 1
    key = (lambda v: signed(v, width)) if kind[0] == "S" else int
    if operation == "ADD":
        return old + value & top if kind[0] in "US" else summed(old, value, kind)
    return {
        "MIN": lambda: min(old, value, key=key), "MAX": lambda: max(old, value, key=key),
        "INC": lambda: 0 if old >= value else old + 1, "DEC": lambda: value if old == 0 or old > value else old - 1,
        "AND": lambda: old & value, "OR": lambda: old | value, "XOR": lambda: old ^ value, "EXCH": lambda: value,
        "CAS": lambda: other if old == value else old,
    }[operation]()  # fmt: skip


FLOATING = {
    "F32": [0, 0x80000000, 1, 0x80000001, 0x7FFFFF, 0x800000, 0x80800001, 0x3F800000, 0xBF800000, 0x7F7FFFFF,
    0x7F800000,
            0xFF800000, 0x7FC00001, 0x33800000, 0x3F800001],
    "F64": [0, 1 << 63, 1, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000,
    0x3CA0000000000000,
            0x3FF0000000000001],
    "F16x2": [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x3C00, 0xBC00, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x1000,
    0x3C01, 0x4C00, 0x1001,
              0x03FE, 0x4FFF, 0x5000, 0x0FFF, 0x83FF],
    "BF16x2": [0, 0x8000, 1, 0x8001, 0x7F, 0x80, 0x3F80, 0xBF80, 0x7F7F, 0x7F80, 0xFF80, 0x7FC0, 0x3B80,
    0x3F81, 0x3B81, 0x3BFF,
               0x7B00, 0x0081],
}  # fmt: skip


def operands(b, kind, count):
    """Numbers at the edges and others."""
    if kind in ("F16x2", "BF16x2"):
        pick = b.random.choice(np.array(FLOATING[kind], np.uint64), (2, count))
        noise = b.random.integers(0, 0x7B00, (2, count)).astype(np.uint64)
        pick = np.where(b.random.random((2, count)) < 0.7, pick, noise)
        return pick[0] | pick[1] << np.uint64(16)
    if kind in FLOATING:
        plain = b.random.standard_normal(count) * 2.0 ** b.random.integers(-3, 3, count)
        noise = plain.astype(np.float32).view(np.uint32) if kind == "F32" else plain.view(np.uint64)
        pick = b.random.choice(np.array(FLOATING[kind], np.uint64), count)
        return np.where(b.random.random(count) < 0.6, pick, noise.astype(np.uint64))
    width = 64 if "64" in kind else 32
    edges = [
        0,
        1,
        2,
        5,
        1 << 31,
        (1 << 31) - 1,
        (1 << width) - 1,
        1 << width - 1,
        (1 << width - 1) - 1,
        3 << 40,
    ]
    return b.random.choice(np.array(edges, np.uint64), count) & np.uint64((1 << width) - 1)


def spread(b, operand, values, size):
    if size == 8:
        b.pairs(operand, values.view(np.int64))
    else:
        b.rows(operand)[0] = values


@group
def atomic_values():
    """All operations on all types, several lanes at one place, the result in the place of a source or not."""
    made = []
    for kind in a.TYPES:
        names = a.OPERATIONS if kind[0] in "US" else ("ADD", "EXCH")
        for operation in names:
            if operation in ("INC", "DEC") and kind != "U32":  # there are no others (PTX ISA, `atom`)
                continue
            size = 8 if "64" in kind else 4
            for seed, op in enumerate(("ATOMG", "ATOMS", "ATOM", "ATOMG")):
                b = Bench(90 if op == "ATOM" else 80, seed=seed)
                slots = b.random.integers(0, 24, 32)
                area = "global" if op != "ATOMS" else "shared0"
                values, others, memory = (operands(b, kind, n) for n in (32, 32, 24))
                memory[::2] = values[: len(memory[::2])]  # so that numbers are equal
                if kind in FLOATING:  # and sums cancel
                    memory[1::4] = values[: len(memory[1::4])] ^ np.uint64(1 << 8 * size - 1)
                b.part(area)[: 24 * size].view(np.uint64 if size == 8 else np.uint32)[:] = memory
                spread(b, R(4), values, size)
                spread(b, R(8), others, size)
                addresses = size * slots + (0 if area == "shared0" else b.at(area))
                b.pairs(R(0), addresses)
                b.rows(K(2))[:] = 0
                mask, target = (ALL, SOME, ALL, SOME)[seed], (R(20), R(20), R(20), R(4))[seed]

                def then(b=b, slots=slots, values=values, others=others, area=area, size=size, mask=mask, target=target,
                         operation=operation, kind=kind, addresses=addresses, op=op):  # fmt: skip
                    if op == "ATOMG":
                        look(b, addresses, mask, size)
                    if op == "ATOM":
                        b.set(CTA_LAST_RANGE=1)
                    words = b.part(area)[: 24 * size].view(np.uint64 if size == 8 else np.uint32)
                    for lane in LANES[chosen(mask)]:
                        old = int(words[slots[lane]])
                        new = result(old, int(values[lane]), int(others[lane]), operation, kind)
                        words[slots[lane]] = new
                        b.rows(target, 2)[0, lane] = old & ALL
                        if size == 8:
                            b.rows(target, 2)[1, lane] = old >> 32

                how = size | a.OPERATIONS.index(operation) << 8 | a.TYPES.index(kind) << 16
                given = {"A": R(0), "B": K(2), "C": R(4), "E": R(8), "D": target, "I1": PAIR_A, "I2": how}
                made.append(b.case(op, then, mask, **given))
    return made


@group
def atomic_truths():
    """An exchange that answers whether it took place."""
    made = []
    for size in (4, 8):
        for op in ("ATOMS", "ATOMG"):
            b = Bench(80, seed=size)
            area = "shared0" if op == "ATOMS" else "global"
            words = b.part(area)[: 32 * size].view(np.uint64 if size == 8 else np.uint32)
            values = words.astype(np.uint64)
            values[::3] ^= np.uint64(1) << np.uint64(8 * size - 1)
            others = operands(b, "U64" if size == 8 else "U32", 32)
            spread(b, R(4), values, size)
            spread(b, R(8), others, size)
            addresses = size * LANES + (0 if op == "ATOMS" else b.at(area))
            b.pairs(R(0), addresses)
            b.rows(K(2))[:] = 0

            def then(b=b, op=op, values=values, others=others, area=area, size=size, addresses=addresses):
                if op == "ATOMG":
                    look(b, addresses, SOME, size)
                words = b.part(area)[: 32 * size].view(np.uint64 if size == 8 else np.uint32)
                for lane in LANES[chosen(SOME)]:
                    done = int(words[lane]) == int(values[lane])
                    words[lane] = others[lane] if done else words[lane]
                    b.rows(R(20), size // 4)[:, lane] = [done, 0][: size // 4]

            how = size | a.CAS << 8 | a.TYPES.index("U64" if size == 8 else "U32") << 16 | a.TRUTH
            given = {"A": R(0), "B": K(2), "C": R(4), "E": R(8), "D": R(20), "I1": PAIR_A, "I2": how}
            made.append(b.case(op, then, SOME, **given))
    return made


@group
def atomic_vectors():
    """Two or four words of a lane, one behind the other; lanes at one place, results in the place of sources or not."""
    made = []
    for kind in ("F32", "F16x2", "BF16x2"):
        for seed, count in enumerate((2, 4, 2, 4)):
            b, size = Bench(90, seed=seed), 4 * count
            slots = b.random.integers(0, 8, 32)
            values, memory = operands(b, kind, 32 * count).reshape(count, 32), operands(b, kind, 8 * count)
            b.part("global")[: 8 * size].view(np.uint32)[:] = memory
            b.rows(R(4), count)[:] = values
            addresses = size * slots + b.at("global")
            b.pairs(R(0), addresses)
            b.rows(K(2))[:] = 0
            mask, target = (ALL, SOME, SOME, ALL)[seed], (R(20), R(20), R(4), R(4))[seed]

            def then(b=b, slots=slots, values=values, size=size, count=count, mask=mask, target=target, kind=kind,
                     addresses=addresses):  # fmt: skip
                look(b, addresses, mask, size)
                words = b.part("global")[: 8 * size].view(np.uint32).reshape(8, count)
                for lane in LANES[chosen(mask)]:
                    for n in range(count):
                        old = int(words[slots[lane], n])
                        words[slots[lane], n] = result(old, int(values[n, lane]), 0, "ADD", kind)
                        b.rows(target, count)[n, lane] = old

            how = size | a.ADD << 8 | a.TYPES.index(kind) << 16 | a.VECTOR
            given = {"A": R(0), "B": K(2), "C": R(4), "D": target, "I1": PAIR_A, "I2": how}
            made.append(b.case("ATOMG", then, mask, **given))
    return made


@group
def atomics_told():
    """What the checks are told; a fault of theirs keeps a shared atomic from being done."""
    made = []
    for op, says in (("ATOMG", 0), ("ATOMS", 0), ("ATOMS", at.UNINITIALISED)):
        b = Bench(races=True, checks=True)
        b.pairs(R(0), 4 * LANES + (b.at("global") if op == "ATOMG" else 0))
        b.rows(K(2))[:] = 0

        def then(b=b, op=op, says=says):
            if says:
                return says
            if op == "ATOMG":
                b.set(CTA_LAST_RANGE=1)
            words = b.part("global" if op == "ATOMG" else "shared0").view(np.uint32)
            for lane in LANES[chosen(SOME)]:
                b.rows(R(20))[0, lane] = words[lane]
                words[lane] = b.rows(R(4))[0, lane]

        told = [
            (shadow.GLOBAL, near(0), SOME, 4 | shadow.ATOMIC << 8, 0)
            if op == "ATOMG"
            else (shadow.ATOMICS, near(0), SOME, 4, 0)
        ]
        how = 4 | a.EXCH << 8
        made.append(
            b.case(
                op,
                then,
                SOME,
                told=told,
                says=says,
                A=R(0),
                B=K(2),
                C=R(4),
                E=R(8),
                D=R(20),
                I1=PAIR_A,
                I2=how,
            )
        )
    return made


@group
def generic_atomics():
    """On shared memory of another program of the cluster."""
    made = []
    for address, mask in (((1 << 24) + 0x400, 0b101), (0x400 + SHARED - 4, 0b1)):
        b = Bench(90)
        b.pairs(R(0), at.SHARED_WINDOW + address)
        b.rows(K(2))[:] = 0

        def then(b=b, address=address, mask=mask):
            words = b.part(f"shared{address >> 24}").view(np.uint32)
            n = ((address & 0xFFFFFF) - 0x400) // 4
            for lane in LANES[chosen(mask)]:
                b.rows(R(20))[0, lane] = words[n]
                words[n] ^= b.rows(R(4))[0, lane]

        how = 4 | a.XOR << 8
        made.append(b.case("ATOM", then, mask, A=R(0), B=K(2), C=R(4), E=R(8), D=R(20), I1=PAIR_A, I2=how))
    return made
