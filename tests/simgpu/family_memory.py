"""Cases for loads and stores: global, shared, local, constant, generic, with their faults."""

from __future__ import annotations

import numpy as np
from family_machine import ALL, LANES, LOCAL, SHARED, UR, Bench, K, R, bits, chosen, group, near

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import shadow
from tileprobe.targets.simgpu.engine.lanes_address import PAIR_A, PAIR_B, SCALE_BIT, SIGNED

SOME = 0x8F0F3C05
SIZES = (1, 2, 4, 8, 16)


def clock(b, subject):
    """What a warp or barrier knows, and what of it has passed a fence: two rows of agents."""
    return b.part("clocks").view(np.uint32).reshape(b.subjects, 2, b.agents)[subject]


def bytes_at(b: Bench, area: str, address: int, size: int) -> np.ndarray:
    first = address - b.at(area)
    return b.part(area)[first : first + size]


def read_into(b, operand, lane, data, signed=False):
    """Bytes of memory into a lane of as many rows as they fill."""
    size = len(data)
    if size < 4:
        value = int.from_bytes(data.tobytes(), "little", signed=signed)
        b.rows(operand)[0, lane] = value & ALL
        return
    for n, word in enumerate(data.view(np.uint32)):
        b.rows(operand, n + 1)[n, lane] = word


def written_from(b, operand, lane, data):
    size = len(data)
    words = b.rows(operand, max(1, size // 4))[:, lane].copy()
    data[:] = words.view(np.uint8)[:size]


def found_range(b, low, high):
    """Keeps the range that was found last, as the engine does; whether there is one."""
    ranges = b.part("ranges").view(np.int64).reshape(-1, 2)
    for n in (b.get("CTA_LAST_RANGE"), *range(len(ranges))):
        if ranges[n][0] <= low and high <= ranges[n][1]:
            b.set(CTA_LAST_RANGE=n)
            return True
    return False


def look(b, addresses, mask, size):
    """The range of all lanes at once, or of each."""
    on = [int(a) for a, m in zip(addresses, chosen(mask)) if m]
    if on and not found_range(b, min(on), max(on) + size):
        for a in on:
            assert found_range(b, a, a + size)


def places(b, size, how, area="global"):
    """Addresses of lanes, in their areas: side by side, scattered, all at one place."""
    first, stop = b.at(area), b.at(area) + b.places[area][1]
    if how == "line":
        return first + 64 + size * LANES
    if how == "one":
        return np.full(32, stop - size)
    slots = b.random.permutation((stop - first) // size)[:32]
    slots[7], slots[11] = 0, (stop - first) // size - 1
    return first + size * slots


def moved(b, addresses, mask, size, load, signed, area="global"):
    for lane in LANES[chosen(mask)]:
        data = bytes_at(b, area, int(addresses[lane]), size)
        if load:
            read_into(b, R(20), lane, data.copy(), signed)
        else:
            written_from(b, R(20), lane, data)


@group
def global_accesses():
    made = []
    for load in (True, False):
        for size in SIZES:
            for how, mask, signed in (
                ("line", ALL, False), ("scattered", ALL, True), ("scattered", SOME, False), ("one", 1 << 9, True),
                ("line", 0x7FFFFFFF, False), ("line", 0, False),
            ):  # fmt: skip
                b = Bench(seed=size)
                addresses = places(b, size, how)
                b.pairs(R(0), addresses - 24 - 8 * size)
                b.pairs(UR(4), 8 * size)

                def then(b=b, addresses=addresses, mask=mask, size=size, load=load, signed=signed):
                    look(b, addresses, mask, size)
                    moved(b, addresses, mask, size, load, signed)

                fields = {"D": R(20), "E": R(20), "A": R(0), "B": UR(4), "I0": 24, "I1": PAIR_A | PAIR_B}
                kind = size | (SIGNED if signed and size < 4 else 0)
                made.append(b.case("LDG" if load else "STG", then, mask, I2=kind, **fields))
    return made


@group
def addresses_of_registers():
    """A register of 32 bits with a scale, a uniform base; what is told to the checks, and how strong."""
    made = []
    for strong in (0, shadow.STRONG):
        for load in (True, False):
            b = Bench(races=True, checks=True)
            b.rows(R(2))[0] = 3 + LANES[::-1]
            b.pairs(UR(4), b.at("global"))
            addresses = b.at("global") + 8 * (3 + LANES[::-1]) + 40

            def then(b=b, addresses=addresses, load=load):
                look(b, addresses, SOME, 8)
                moved(b, addresses, SOME, 8, load, False)

            kinds = (shadow.STRONG_READ, shadow.STRONG_WRITE) if strong else (shadow.READ, shadow.WRITE)
            told = [(shadow.GLOBAL, near(0), SOME, 8 | kinds[not load] << 8, near(3, R(20)))]
            made.append(
                b.case(
                    "LDG" if load else "STG", then, SOME, told=told, D=R(20), E=R(20), A=R(2), B=UR(4), I0=40,
                    I1=PAIR_B | 3 << SCALE_BIT, I2=8 | strong,
                )
            )  # fmt: skip
    return made


@group
def global_faults():
    """Beyond either end of a range, by a byte; behind the last one; negative; misaligned; the first lane is named."""
    made = []
    for size, place, lane, kind in (
        (4, "before", 3, at.OUT_OF_BOUNDS), (4, "behind", 31, at.OUT_OF_BOUNDS), (8, "across", 6, at.OUT_OF_BOUNDS),
        (4, "negative", 0, at.OUT_OF_BOUNDS), (2, "odd", 12, at.MISALIGNED), (16, "half", 12, at.MISALIGNED),
        (1, "behind", 5, at.OUT_OF_BOUNDS), (8, "first and last", 4, at.OUT_OF_BOUNDS),
    ):  # fmt: skip
        for op in ("LDG", "STG", "ATOMG"):
            if op == "ATOMG" and size not in (4, 8):
                continue
            b = Bench()
            addresses = places(b, size, "line")
            first, stop = b.span("global")
            b.set(CTA_LAST_RANGE=1)
            wrong = {"before": first - size, "behind": stop, "across": stop - 4, "negative": -size}
            wrong |= {"odd": first + 1, "half": first + 8, "first and last": b.at("other") - 8}
            addresses[lane] = wrong[place]
            if place == "across":  # aligned, but its end lies outside
                b.part("ranges").view(np.int64)[3] = stop = stop - 4
                addresses[lane] = stop - 4
            if place in ("odd", "half"):
                addresses[lane + 5] = wrong[place] + size  # a second one
            if place == "first and last":
                addresses[lane - 1] = b.at("other") + 8  # another range, which is right
            b.pairs(R(0), addresses)

            def then(b=b, addresses=addresses, size=size, lane=lane, kind=kind):
                if kind == at.OUT_OF_BOUNDS:
                    for n in range(lane):
                        found_range(b, int(addresses[n]), int(addresses[n]) + size)
                return b.faulted(kind, lane, int(addresses[lane]), size)

            given = {"D": R(20), "E": R(20), "C": R(30), "A": R(0), "B": K(1), "I1": PAIR_A}
            b.rows(K(1))[:] = 0
            made.append(b.case(op, then, ALL & ~2, I2=size, **given))
            made.append(b.case(op, None, 0, I2=size, **given))
            if op != "ATOMG" and place in ("odd", "half"):  # lanes that do not execute may have any address
                mask = 0xFF

                def fine(b=b, addresses=addresses, size=size, op=op):
                    look(b, addresses, 0xFF, size)
                    moved(b, addresses, 0xFF, size, op == "LDG", False)

                made.append(b.case(op, fine, mask, I2=size, **given))
    return made


def shared_bench(arch, size, how, **more):
    b = Bench(arch, seed=size, **more)
    slots = {"line": 4 + LANES, "one": np.full(32, SHARED // size - 1)}.get(how)
    if slots is None:
        slots = b.random.permutation(SHARED // size)[:32] if SHARED // size >= 32 else LANES
        slots[5], slots[6] = 0, SHARED // size - 1
    offsets = size * slots
    b.rows(R(0))[0] = b.base + offsets + (b.me << 24 if arch >= 90 else 0) - 16
    b.rows(K(2))[:] = 4
    return b, offsets


@group
def shared_accesses():
    made = []
    for arch in (80, 90):
        for load in (True, False):
            for size in SIZES:
                for how, mask, signed in (("line", ALL, False), ("scattered", SOME, True), ("one", 2, False)):
                    b, offsets = shared_bench(arch, size, how)
                    name = f"shared{b.me}"

                    def then(b=b, offsets=offsets, mask=mask, size=size, load=load, signed=signed, name=name):
                        moved(b, b.at(name) + offsets, mask, size, load, signed, name)

                    fields = {"D": R(20), "E": R(20), "A": R(0), "B": K(2), "I0": 12}
                    kind = size | (SIGNED if signed and size < 4 else 0)
                    made.append(b.case("LDS" if load else "STS", then, mask, I2=kind, **fields))
                    made.append(b.case("LDS" if load else "STS", None, 0, I2=kind, **fields))
    return made


@group
def shared_told():
    """The checks see offsets of lanes and say what is wrong; then a load has done nothing."""
    made = []
    for load, says in ((True, 0), (True, at.UNINITIALISED), (False, 0)):
        b, offsets = shared_bench(90, 4, "scattered", checks=True)

        def then(b=b, offsets=offsets, load=load, says=says):
            if says:
                return says
            moved(b, b.at("shared1") + offsets, SOME, 4, load, False, "shared1")

        which = (
            (shadow.LOADS, near(0), SOME, 4, 0) if load else (shadow.STORES, near(0), SOME, 4, near(3, R(20)))
        )
        made.append(
            b.case("LDS" if load else "STS", then, SOME, told=[which], says=says, D=R(20), E=R(20), A=R(0),
                   B=K(2), I0=12, I2=4)
        )  # fmt: skip
    return made


@group
def shared_faults():
    made = []
    for arch in (80, 90):
        for lane, offset, size, kind in (
            (7, SHARED, 4, at.SHARED_BOUNDS), (0, -4, 4, at.SHARED_BOUNDS), (31, SHARED - 8, 16, at.MISALIGNED),
            (30, 2, 4, at.MISALIGNED), (9, SHARED - 4, 8, at.MISALIGNED), (4, SHARED, 1, at.SHARED_BOUNDS),
            (5, SHARED + 16, 16, at.SHARED_BOUNDS),
        ):  # fmt: skip
            if arch == 80 and offset < 0:
                continue
            for op in ("LDS", "STS", "ATOMS"):
                if op == "ATOMS" and size != 4:
                    continue
                b, offsets = shared_bench(arch, size, "line")
                offsets[lane] = offset
                if lane < 25:
                    offsets[lane + 3] = offset
                b.rows(R(0))[0] = offsets + b.base - 16

                def then(b=b, lane=lane, offset=offset, size=size, kind=kind):
                    place = offset + b.base if kind == at.MISALIGNED else offset
                    return b.faulted(kind, lane, place, size if kind == at.MISALIGNED else SHARED)

                fields = {"D": R(20), "E": R(20), "C": R(30), "A": R(0), "B": K(2), "I0": 12, "I2": size}
                made.append(b.case(op, then, ALL, **fields))
                mask = ALL & ~(9 << lane)
                if op == "LDS":

                    def fine(b=b, offsets=offsets, mask=mask, size=size):
                        name = f"shared{b.me}"
                        moved(b, b.at(name) + offsets, mask, size, True, False, name)

                    made.append(b.case(op, fine, mask, **fields))
    for offset, size in ((1, 4), (2, 16), (1, 2), (4, 8), (8, 16)):  # one lane, the others at the very start
        b, offsets = shared_bench(90, size, "one")
        offsets[:] = 0
        offsets[20] = offset
        b.rows(R(0))[0] = offsets + b.base - 16

        def crooked(b=b, offset=offset, size=size):
            return b.faulted(at.MISALIGNED, 20, b.base + offset, size)

        def rest(b=b, offsets=offsets, size=size):
            moved(b, b.at("shared1") + offsets, 1, size, True, False, "shared1")

        fields = {"D": R(20), "E": R(20), "C": R(30), "A": R(0), "B": K(2), "I0": 12, "I2": size}
        made.append(b.case("LDS", crooked, ALL, **fields))
        made.append(b.case("LDS", rest, 1, **fields))  # of one lane, the first
    # a room that is no multiple: the end of the access decides
    for op, room in (("LDS", SHARED - 4), ("STS", SHARED - 4), ("ATOMS", SHARED - 4)):
        b, offsets = shared_bench(80, 8, "one")
        b.set(CTA_SHARED_BYTES=room)

        def then(b=b, room=room):
            return b.faulted(at.SHARED_BOUNDS, 2, SHARED - 8, room)

        made.append(b.case(op, then, 0b1100, D=R(20), E=R(20), C=R(30), A=R(0), B=K(2), I0=12, I2=8))
    return made


def local_view(b):
    """A lane's bytes, word after word, from words of lanes that stand side by side."""
    return b.part("local").view(np.uint32).reshape(LOCAL // 4, 32)


@group
def local_accesses():
    made = []
    for op in ("LDL", "STL", "LD", "ST"):
        load = op in ("LDL", "LD")
        for size in SIZES:
            for mask, signed in ((ALL, True), (SOME, False)):
                b = Bench(seed=size)
                offsets = size * b.random.integers(0, LOCAL // size, 32)
                offsets[[1, 2]] = 0, LOCAL - size
                if op in ("LD", "ST"):
                    b.pairs(R(0), at.LOCAL_WINDOW + offsets - 8)
                else:
                    b.rows(R(0))[0] = offsets - 8
                b.rows(K(2))[:] = 0

                def then(b=b, offsets=offsets, size=size, mask=mask, load=load, signed=signed):
                    words = local_view(b)
                    for lane in LANES[chosen(mask)]:
                        own = words[:, lane].copy().view(np.uint8)
                        data = own[offsets[lane] : offsets[lane] + size]
                        if load:
                            read_into(b, R(20), lane, data.copy(), signed)
                        else:
                            written_from(b, R(20), lane, data)
                            words[:, lane] = own.view(np.uint32)

                kind = size | (SIGNED if signed and size < 4 else 0)
                pair = PAIR_A if op in ("LD", "ST") else 0
                made.append(b.case(op, then, mask, D=R(20), E=R(20), A=R(0), B=K(2), I0=8, I1=pair, I2=kind))
    return made


@group
def local_faults():
    made = []
    for op in ("LDL", "STL", "LD", "ST"):
        for offset, size, kind in ((LOCAL, 4, at.LOCAL_BOUNDS), (LOCAL - 2, 4, at.LOCAL_BOUNDS), (2, 4, at.MISALIGNED),
                                   (LOCAL - 4, 8, at.LOCAL_BOUNDS), (8, 16, at.MISALIGNED),
                                   (LOCAL, 1, at.LOCAL_BOUNDS)):  # fmt: skip
            b = Bench()
            offsets = np.full(32, 0)
            offsets[21:23] = offset
            generic = op in ("LD", "ST")
            if generic:
                b.pairs(R(0), at.LOCAL_WINDOW + offsets)
                kind = at.MISALIGNED if offset & size - 1 else kind
            else:
                b.rows(R(0))[0] = offsets
            b.rows(K(2))[:] = 0

            def then(b=b, offset=offset, size=size, kind=kind, generic=generic):
                more = size if kind == at.MISALIGNED else LOCAL
                return b.faulted(
                    kind, 21, offset + at.LOCAL_WINDOW * (generic and kind == at.MISALIGNED), more
                )

            pair = PAIR_A if generic else 0
            made.append(b.case(op, then, 3 << 21, D=R(20), E=R(20), A=R(0), B=K(2), I1=pair, I2=size))
            made.append(b.case(op, None, 0, D=R(20), E=R(20), A=R(0), B=K(2), I1=pair, I2=size))
    return made


@group
def constants():
    made = []
    for size in SIZES:
        for mask, signed in ((ALL, False), (SOME, True)):
            b = Bench(seed=size)
            offsets = b.random.integers(0, 120 - size, 32)
            offsets[[0, 2]] = 120 - size, 0
            b.rows(R(0))[0] = offsets - 20

            def then(b=b, offsets=offsets, size=size, mask=mask, signed=signed):
                for lane in LANES[chosen(mask)]:
                    read_into(b, R(20), lane, b.part("bank")[offsets[lane] :][:size].copy(), signed)

            kind = size | (SIGNED if signed and size < 4 else 0)
            made.append(b.case("LDC", then, mask, D=R(20), A=R(0), I0=20, I1=3, I2=kind))
    for offset, size in ((120, 1), (118, 4), (-1 & ALL, 4), (0, 4)):
        b = Bench()
        b.rows(R(0))[0] = 0
        b.rows(R(0))[0, 9:] = offset
        bank, room = (3, 120) if offset else (4, 0)  # a bank that is not there has no bytes
        lane = 9 if offset else 8

        def then(b=b, offset=offset, lane=lane, room=room):
            return b.faulted(at.CONSTANT_BOUNDS, lane, offset, room)

        made.append(b.case("LDC", then, 0x700 & ~(0x100 if offset else 0), D=R(20), A=R(0), I1=bank, I2=size))
    return made


@group
def generic_accesses():
    """One warp means shared memory of both programs of a cluster, its own local memory and tensors at once."""
    made = []
    for arch, checks, races in ((90, False, False), (80, False, False), (90, True, False), (90, True, True)):
        for load in (True, False):
            for size in SIZES:
                b = Bench(arch, seed=size, checks=checks, races=races)
                b.part("visits").view(np.int64)[:] = 0
                if races:
                    clock(b, 0)[0, 0] = 33
                step = max(size, 4)
                addresses = at.SHARED_WINDOW + b.base + step * LANES
                if arch == 90:
                    addresses[16:] += 1 << 24
                addresses[8:12] = b.at("global") + size * LANES[8:12]
                addresses[[12, 13]] = b.at("global"), b.at("global") + 4096 - size
                addresses[[1, 2]] = at.SHARED_WINDOW + b.base, at.SHARED_WINDOW + b.base + SHARED - size
                addresses[3] = at.LOCAL_WINDOW + 16
                b.pairs(R(0), addresses)
                b.rows(K(2))[:] = 0

                def then(b=b, addresses=addresses, size=size, load=load, races=races):
                    if races:  # when and where the other program's memory was used
                        b.part("visits").view(np.uint32)[:2] = clock(b, 0)[0, 0], b.word("W_PC")
                    for lane in LANES[chosen(SOME)]:
                        address = int(addresses[lane])
                        if address >> 32 == at.LOCAL_WINDOW >> 32:
                            own = local_view(b)[:, lane].copy().view(np.uint8)
                            if load:
                                read_into(b, R(20), lane, own[16 : 16 + size].copy())
                            else:
                                written_from(b, R(20), lane, own[16 : 16 + size])
                                local_view(b)[:, lane] = own.view(np.uint32)
                            continue
                        area = "global"
                        if address >> 57:
                            area = f"shared{address >> 24 & 1}"
                            address = b.at(area) + (address & 0xFFFFFF) - b.base
                        else:
                            found_range(b, address, address + size)
                        data = bytes_at(b, area, address, size)
                        if load:
                            read_into(b, R(20), lane, data.copy())
                        else:
                            written_from(b, R(20), lane, data)

                op, strong = "LD" if load else "ST", shadow.STRONG if size == 8 else 0
                told = generic_told(b, addresses, SOME, size, load, strong) if checks else []
                how = size | strong
                made.append(
                    b.case(op, then, SOME, told=told, D=R(20), E=R(20), A=R(0), B=K(2), I1=PAIR_A, I2=how)
                )
    return made


def generic_told(b, addresses, mask, size, load, strong):
    """Shared memory program by program, then tensors, if races are looked for."""
    held = R(20)
    told = []
    for member in range(b.members):
        meant = [address >> 57 == 1 and address >> 24 & 0xFF == member for address in addresses.tolist()]
        source = 0 if load else near(3, held)
        if mine := mask & bits(meant):
            told.append((shadow.LOADS if load else shadow.STORES, near(0, 2048), mine, size, source))
    rest = mask & bits([address < at.LOCAL_WINDOW for address in addresses.tolist()])
    if b.get("CTA_RACES"):
        how = 2 * bool(strong) + (shadow.READ if load else shadow.WRITE) + bool(strong)
        told.append((shadow.GLOBAL, near(0), rest, size | how << 8, near(3, held)))
    return told


@group
def generic_faults():
    made = []
    for address, size, kind, place, more in (
        ((2 << 24) + 0x400, 4, at.SHARED_BOUNDS, (2 << 24) + 0x400, 0),
        (0x400 + SHARED, 4, at.SHARED_BOUNDS, SHARED, SHARED),
        (0x3FC, 4, at.SHARED_BOUNDS, -4, SHARED),
        (0x400 + SHARED - 8, 16, at.MISALIGNED, None, 16),
        (0x402, 4, at.MISALIGNED, None, 4),
        (None, 4, at.OUT_OF_BOUNDS, None, 4),
        (-4, 4, at.OUT_OF_BOUNDS, -4, 4),
    ):
        for op in ("LD", "ST", "ATOM"):
            if op == "ATOM" and size == 16:
                continue
            b = Bench(90)
            whole = at.SHARED_WINDOW + (address or 0)
            if address is None:
                whole = place = b.span("global")[1]
            if address == -4:
                whole = -4
            b.pairs(R(0), whole)
            b.rows(K(2))[:] = 0

            def then(b=b, whole=whole, kind=kind, place=place, more=more):
                return b.faulted(kind, 6, whole if place is None else place, more)

            fields = {"D": R(20), "E": R(20), "C": R(30), "A": R(0), "B": K(2), "I1": PAIR_A, "I2": size}
            made.append(b.case(op, then, 3 << 6, **fields))
            made.append(b.case(op, None, 0, **fields))
    # the end of an access decides
    for op in ("LD", "ST"):
        b = Bench(90)
        b.set(CTA_SHARED_BYTES=SHARED - 4)
        b.pairs(R(0), at.SHARED_WINDOW + (1 << 24) + 0x400 + SHARED - 8)
        b.rows(K(2))[:] = 0
        fields = {"D": R(20), "E": R(20), "A": R(0), "B": K(2), "I1": PAIR_A, "I2": 8}
        made.append(
            b.case(op, lambda b=b: b.faulted(at.SHARED_BOUNDS, 0, SHARED - 8, SHARED - 4), ALL, **fields)
        )
    return made
