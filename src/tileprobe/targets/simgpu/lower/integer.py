"""Integers, logic, selection: how they become micro-ops."""

from __future__ import annotations

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes_bytes import MODES, PACKED
from tileprobe.targets.simgpu.engine.lanes_integer import COMBINE, COMPARE, UNSIGNED, shift_name
from tileprobe.targets.simgpu.lower.case import ZERO, Case, lowers
from tileprobe.targets.simgpu.operands import read


@lowers("MOV", "UMOV")
def mov(x: Case) -> None:
    x.result()
    x.source(at.A, "bits")
    if x.next_is("hex"):  # which bytes: all of them
        if x.take().number != 0xF:
            raise x.refuse("a move of some bytes")
    x.emit("mov")


@lowers("IMAD", "UIMAD")
def imad(x: Case) -> None:
    wide, high, carried = x.has("WIDE"), x.has("HI"), x.has("X")
    unsigned = x.has("U32")
    x.has("MOV", "SHL", "IADD")  # what the multiplication stands for: it is one all the same
    x.result(rows=2 if wide else 1)
    carries = False
    while x.next_is("P", "UP"):
        carries = carries or x.operands[0].number != 7
        x.predicate_result(0)
    style = "bits" if wide or high else "integer"
    x.source(at.A, style)
    x.source(at.B, style)
    x.source(at.C, "integer", rows=2 if wide or high else 1)
    if carried:
        x.predicate(0, place=-1)
    else:
        x.false(0)
    kind = ("wide" if wide else "hi") + ("_u" if unsigned else "_s")
    if wide or high:
        x.emit(f"imad_{kind}{'_carry' * (carried or carries)}")
    elif carries:
        raise x.refuse("a carry of a 32-bit product")
    else:
        x.emit("imad_x" if carried else "imad")


def _carries(x: Case, results: int) -> bool:
    """Takes predicate results of carries; whether one of them is used."""
    used = n = 0
    while x.next_is("P", "UP"):
        if n == results:
            raise x.refuse("too many results")
        used |= x.operands[0].number != 7
        x.predicate_result(n)
        n += 1
    return bool(used)


@lowers("IADD3", "UIADD3", "VIADD", "IADD")
def iadd3(x: Case) -> None:
    if x.instruction.root == "VIADD" and x.has("16x2"):
        x.result()
        x.source(at.A, "bits")
        x.source(at.B, "bits")
        x.emit("iadd_16x2")
        return
    carried = x.has("X")
    x.result()
    carries = _carries(x, 2)
    two = x.instruction.root in ("VIADD", "IADD")
    for source in (at.A, at.B) if two else (at.A, at.B, at.C):
        x.source(source)
    for n in (0, 1):
        if x.last_is("P", "UP") and carried:
            x.predicate(n, place=0)
        else:
            x.false(n)
    x.emit("iadd3_carry" if carried or carries else "iadd3")


@lowers("LEA", "ULEA")
def lea(x: Case) -> None:
    high, carried, extended = x.has("HI"), x.has("X"), x.has("SX32")
    x.result()
    carries = _carries(x, 1)
    x.false(0)
    if carried:
        x.predicate(0, place=-1)
    shift = x.take(-1)
    if shift.kind != "hex" or not 0 <= shift.number < 32:
        raise x.refuse(f"a shift by {shift.text}")
    x.set(at.I0, shift.number)
    if x.source(at.A, "bits" if high else "integer").inverted:
        raise x.refuse("an inverted operand")
    x.source(at.B)
    if high and not extended:
        x.source(at.C, "bits")
    x.emit("lea" + "_hi" * high + "_sx" * extended + "_carry" * (carried or carries))


_TWO = {0xC0: "and", 0xFC: "or", 0x3C: "xor"}  # tables in which only a and b matter


@lowers("LOP3", "ULOP3")
def lop3(x: Case) -> None:
    x.has("LUT")
    tests = x.next_is("P", "UP") and x.operands[0].number != 7
    if x.next_is("P", "UP"):
        x.predicate_result(0)
    x.result()
    for source in (at.A, at.B, at.C):
        x.source(source, "bits")
    table = x.take()
    if table.kind != "hex":
        raise x.refuse("a table is missing")
    x.set(at.I0, table.number)
    x.predicate(0)
    x.emit("lop3_predicate" if tests else f"lop_{_TWO[table.number]}" if table.number in _TWO else "lop3")


@lowers("PLOP3", "UPLOP3")
def plop3(x: Case) -> None:
    x.has("LUT")
    x.predicate_result(0)
    x.predicate_result(1)
    x.predicate(0)
    x.predicate(1)
    third = x.take()
    x.fields[at.C] = x._slot(third, reading=True)
    x.set(at.I0, x.take().number)
    x.set(at.I1, x.take().number)
    x.emit("plop3")


@lowers("SHF", "USHF")
def shf(x: Case) -> None:
    left = x.one_of("L", "R") == "L"
    wrap, high = x.has("W"), x.has("HI")
    kind = x.one_of("U32", "S32", "U64", "S64")
    x.result()
    x.source(at.A, "bits")
    amount = x.source(at.B, "bits")
    x.source(at.C, "bits")
    signed, double = kind[0] == "S", kind.endswith("64")
    simple = amount.kind == "hex" and 0 <= amount.number < 32 and not double
    if simple and left and not high:
        x.set(at.I0, amount.number)
        x.emit("shl")
    elif simple and not left and high:
        x.set(at.I0, amount.number)
        x.emit("ashr" if signed else "lshr")
    else:
        x.emit(shift_name(left, high, wrap, signed, double))


@lowers("PRMT", "UPRMT")
def prmt(x: Case) -> None:
    x.result()
    x.source(at.A, "bits")
    selector = x.source(at.B, "bits")
    x.source(at.C, "bits")
    if mode := x.one_of(*MODES, default=""):
        x.emit(f"prmt_{mode.lower()}")
    elif selector.kind == "hex" and not selector.number & 0x8888:
        x.set(at.I0, selector.number)
        x.emit("prmt_immediate")
    else:
        x.emit("prmt")


@lowers("SEL", "USEL")
def sel(x: Case) -> None:
    x.result()
    x.source(at.A)
    x.source(at.B)
    x.predicate(0)
    x.emit("sel")


@lowers("SGXT", "USGXT")
def sgxt(x: Case) -> None:
    unsigned, wrap = x.has("U32"), x.has("W")
    x.result()
    x.source(at.A, "bits")
    x.source(at.B, "bits")
    x.emit("sgxt" + "_u" * unsigned + "_w" * wrap)


@lowers("BMSK", "UBMSK")
def bmsk(x: Case) -> None:
    wrap = x.has("W")
    x.result()
    x.source(at.A, "bits")
    x.source(at.B, "bits")
    x.emit("bmsk" + "_w" * wrap)


@lowers("VABSDIFF", "VABSDIFF4")
def difference(x: Case) -> None:
    """Of words, or of four bytes; added to C, or (bytes) side by side."""
    bytes_ = x.instruction.root == "VABSDIFF4"
    kind = "u" if x.has("U8" if bytes_ else "U32") else "s"
    added = x.has("ACC") if bytes_ else True
    x.result()
    for source in (at.A, at.B, at.C):
        x.source(source, "bits")
    x.emit(f"absdiff{4 * bytes_ or ''}_{kind}{'_acc' * (bytes_ and added)}")


@lowers("I2IP")
def packed(x: Case) -> None:
    """`cvt.pack`: `R4.28` are the low 28 bits of R4, which stand above the two numbers."""
    form = x.one_of(*PACKED)
    if x.one_of("S32") != "S32" or not x.has("SAT"):
        raise x.refuse("this conversion")
    x.result()
    x.source(at.A, "bits")
    x.source(at.B, "bits")
    rest = x.take().text.partition(".")
    if rest[2] not in ("", str(32 - 2 * int(form[1:]))):
        raise x.refuse("these bits")
    x.operands.insert(0, read(rest[0]))
    x.source(at.C, "bits")
    x.emit(f"pack_{form.lower()}")


@lowers("IABS", "POPC", "UPOPC", "BREV", "UBREV")
def one(x: Case) -> None:
    x.result()
    x.source(at.A, "bits" if x.instruction.root != "POPC" else "integer")
    if x.fields[at.MODS]:
        raise x.refuse("a modified operand")
    x.emit(x.instruction.root.removeprefix("U").lower())


@lowers("FLO", "UFLO")
def flo(x: Case) -> None:
    unsigned, far = x.has("U32"), x.has("SH")
    x.result()
    if x.next_is("P", "UP"):
        if x.take().number != 7:
            raise x.refuse("a predicate result")
    x.source(at.A)
    x.emit("flo" + ("_u" if unsigned else "_s") + "_sh" * far)


@lowers("IMNMX", "VIMNMX", "UIMNMX")
def imnmx(x: Case) -> None:
    pairs = x.one_of("U16x2", "S16x2", default="")
    kind = _numbers(x, pairs)
    x.result()
    x.source(at.A, "bits" if pairs else "integer")
    x.source(at.B, "bits" if pairs else "integer")
    x.predicate(0)
    x.emit(f"imnmx_{kind}")


def _numbers(x: Case, pairs: str = "") -> str:
    """Which numbers an extreme is chosen of: two halves, 32 bits with or without a sign, or at least 0 (RELU)."""
    unsigned = x.has("U32")
    x.has("S32")
    if pairs:
        return pairs.lower()
    return "u" if unsigned else "relu" if x.has("RELU") else "s"


@lowers("VIMNMX3")
def vimnmx3(x: Case) -> None:
    pairs = x.one_of("U16x2", "S16x2", default="")
    kind = _numbers(x, pairs)
    x.result()
    for source in (at.A, at.B, at.C):
        x.source(source, "bits" if pairs else "integer")
    x.predicate(0)
    x.emit(f"imnmx3_{kind}")


@lowers("IDP")
def idp(x: Case) -> None:
    """Products of bytes, two operands of four, and a sum."""
    x.one_of("4A")
    kinds = [x.one_of("S8", "U8")[0].lower() for _ in range(2)]
    x.result()
    x.source(at.A, "bits")
    x.source(at.B, "bits")
    x.source(at.C)
    x.emit(f"idp4a_{''.join(kinds)}")


@lowers("VIADDMNMX")
def viaddmnmx(x: Case) -> None:
    pairs = x.one_of("U16x2", "S16x2", default="")
    kind = _numbers(x, pairs)
    x.result()
    for source in (at.A, at.B, at.C):
        x.source(source, "bits" if pairs else "integer")
    x.predicate(0)
    x.emit(f"iaddmnmx_{kind}")


@lowers("ISETP", "UISETP")
def isetp(x: Case) -> None:
    compare = x.one_of(*COMPARE)
    unsigned, extended = x.has("U32"), x.has("EX")
    x.set(at.I0, COMBINE[x.one_of(*COMBINE)])
    x.set(at.I1, COMPARE[compare] | (UNSIGNED if unsigned else 0))
    x.predicate_result(0)
    x.predicate_result(1)
    x.source(at.A)
    x.source(at.B)
    x.predicate(0)
    if extended:
        x.predicate(1)
    x.emit("isetp_ex" if extended else "isetp")


def _byte(x: Case, text: str) -> tuple[str, int]:
    """A register of which a byte is meant: `R2.B1`."""
    name, _, byte = text.partition(".B")
    if byte and byte not in "0123":
        raise x.refuse(f"the operand {text}")
    return name, 8 * int(byte or 0)


@lowers("P2R", "R2P", "UP2UR", "UR2UP")
def predicates(x: Case) -> None:
    """All predicates of a lane at once, as bits of a register's byte; or all of the uniform datapath."""
    reads = x.instruction.root in ("P2R", "UP2UR")
    if reads:
        x.result()
    if x.take().text != ("UPR" if x.uniform else "PR"):
        raise x.refuse("predicates of another kind")
    x.set(at.I2, at.UP0 if x.uniform else 0)
    name, shift = _byte(x, x.take().text.replace(".reuse", ""))
    x.operands.insert(0, read(name))
    x.source(at.A, "bits")
    x.set(at.I0, x.take().number)
    x.set(at.I1, shift)
    x.emit("p2r" if reads else "r2p")


@lowers("S2R", "S2UR")
def s2r(x: Case) -> None:
    x.result()
    name = x.take().text
    name = (
        "SR_VIRTID" if name == "SR_VIRTUALSMID" else name
    )  # as long as there is no time, there is one of these
    if name not in at.SPECIAL:
        raise x.refuse(f"the special register {name}")
    x.set(at.A, at.W_SPECIAL + at.ROW * at.SPECIAL.index(name))
    x.emit("mov")


@lowers("CS2R")
def cs2r(x: Case) -> None:
    narrow = x.has("32")
    x.result(rows=1 if narrow else 2)
    name = x.take().text
    if name == "SRZ":
        x.set(at.A, ZERO)
        x.emit("mov" if narrow else "mov_pair")
        return
    places = {"SR_CLOCKLO": 0, "SR_CLOCKHI": 1, "SR_GLOBALTIMERLO": 2, "SR_GLOBALTIMERHI": 3}
    if name not in places:
        raise x.refuse(f"the special register {name}")
    x.set(at.I0, places[name])
    x.set(at.I1, 0 if narrow else 1)
    x.emit("CS2R")
