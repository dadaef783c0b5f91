"""Single, double and half precision: how they become micro-ops."""

from __future__ import annotations

from dataclasses import replace

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.lanes_float import FLOAT_COMPARE, arithmetic_name
from tileprobe.targets.simgpu.engine.lanes_integer import COMBINE
from tileprobe.targets.simgpu.lower.case import Case, lowers

_SOURCES = (at.A, at.B, at.C)


# Powers of two that a product is multiplied by
_SCALES = {"M2": 1, "M4": 2, "M8": 3, "D2": -1, "D4": -2, "D8": -3}


@lowers("FADD", "FMUL", "FFMA")
def arithmetic(x: Case) -> None:
    op = x.instruction.root.lower()
    flush, saturate = x.has("FTZ"), x.has("SAT")
    rounding = x.one_of("RZ", "RM", "RP", default="").lower()
    scale = x.one_of(*_SCALES, default="") if op == "fmul" else ""
    x.has("RN")
    x.result()
    for source in _SOURCES if op == "ffma" else _SOURCES[:2]:
        x.source(source, "float")
    if scale:  # the product times a power of two, rounded once
        if rounding or saturate:
            raise x.refuse("a scaled product of this kind")
        x.set(at.I0, _SCALES[scale])
        x.emit(f"fmul_scaled{'_ftz' * flush}")
        return
    if rounding:
        if saturate:
            raise x.refuse("directed rounding that saturates")
        x.emit(f"{op}_{rounding}{'_ftz' * flush}")
    else:
        x.emit(arithmetic_name(op, x.modified, flush, saturate))


@lowers("DADD", "DMUL", "DFMA")
def double(x: Case) -> None:
    op = x.instruction.root.lower()
    rounding = x.one_of("RZ", "RM", "RP", default="").lower()
    x.result(rows=2)
    for source in _SOURCES if op == "dfma" else _SOURCES[:2]:
        x.source(source, "double", rows=2)
    if rounding:
        x.set(at.I0, ("rz", "rm", "rp").index(rounding))
        x.set(at.I1, ("dadd", "dmul", "dfma").index(op))
        x.emit("DIRECTED_64")
    else:
        x.emit(op)


@lowers("FSEL")
def fsel(x: Case) -> None:
    flush = x.has("FTZ")
    if flush:
        raise x.refuse("FTZ")
    x.result()
    x.source(at.A, "float")
    x.source(at.B, "float")
    x.predicate(0)
    x.emit("fsel")


@lowers("FMNMX")
def fmnmx(x: Case) -> None:
    flush, nan, xorsign = x.has("FTZ"), x.has("NAN"), x.has("XORSIGN")
    x.result()
    x.source(at.A, "float")
    x.source(at.B, "float")
    x.predicate(0)
    x.emit("fmnmx" + "_ftz" * flush + "_nan" * nan + "_xorsign" * xorsign)


@lowers("FSETP", "DSETP")
def fsetp(x: Case) -> None:
    wide = x.instruction.root == "DSETP"
    compare = x.one_of(*FLOAT_COMPARE, *(("MAX", "MIN") if wide else ()))
    flush = x.has("FTZ")
    x.set(at.I0, COMBINE[x.one_of(*COMBINE)])
    x.predicate_result(0)
    x.predicate_result(1)
    for source in _SOURCES[:2]:
        x.source(source, "double" if wide else "float", rows=2 if wide else 1)
    x.predicate(0)
    if compare in ("MAX", "MIN"):
        x.emit(f"dsetp_{compare.lower()}")
        return
    x.set(at.I1, FLOAT_COMPARE[compare])
    x.emit("dsetp" if wide else "fsetp" + "_ftz" * flush)


@lowers("FSET")
def fset(x: Case) -> None:
    """A comparison whose result is a number: 1.0 (.BF) or all bits where it holds."""
    flush = x.has("FTZ")
    x.set(at.I2, 0x3F800000 if x.has("BF") else 0xFFFFFFFF)
    x.set(at.I1, FLOAT_COMPARE[x.one_of(*FLOAT_COMPARE)])
    x.set(at.I0, COMBINE[x.one_of(*COMBINE)])
    x.result()
    for source in _SOURCES[:2]:
        x.source(source, "float")
    x.predicate(0)
    x.emit("fset" + "_ftz" * flush)


@lowers("FCHK")
def fchk(x: Case) -> None:
    x.has("DIVIDE")
    x.predicate_result(0)
    x.source(at.A, "float")
    x.source(at.B, "float")
    x.emit("fchk")


_SLOW = ("LG2", "SIN", "COS", "TANH")


@lowers("MUFU")
def mufu(x: Case) -> None:
    function = x.one_of("EX2", "RCP", "RSQ", "SQRT", "RCP64H", "RSQ64H", *_SLOW)
    form = x.one_of("F16", "BF16", default="F32") if function in ("EX2", "TANH") else "F32"
    x.result()
    if form != "F32":
        _number(x, form)
        x.set(at.I0, _SLOW.index("TANH") if function == "TANH" else len(_SLOW))
        x.set(at.I1, _FORMATS.index(form))
        x.emit("MUFU_SLOW")
        return
    x.source(at.A, "float")
    if function in _SLOW:
        x.set(at.I0, _SLOW.index(function))
        x.emit("MUFU_SLOW")
    else:
        x.emit(f"mufu_{function.lower()}")


# -- two halves ----------------------------------------------------------------------------------------------------


def _halves(x: Case, fields: tuple[int, ...]) -> None:
    """Sources of two halves; two immediates stand for one source, packed."""
    for source in fields:
        if x.next_is("text", "hex"):
            x.take()
            x.source(source, "half")
        else:
            x.source(source, "half")


@lowers("HADD2", "HMUL2", "HFMA2")
def half(x: Case) -> None:
    op = x.instruction.root.lower()
    x.has("MMA")  # the unit that does it
    form = "bf16" if x.has("BF16_V2", "BF16") else "f16"
    whole = op == "hadd2" and x.has("F32")
    kind = "_sat" if x.has("SAT") else "_relu" if x.has("RELU") else ""
    x.result()
    _halves(x, _SOURCES if op == "hfma2" else _SOURCES[:2])
    x.emit(f"hadd2_f32_{form}" if whole else f"{op}_{form}{kind}")


@lowers("HMNMX2", "VHMNMX")
def hmnmx2(x: Case) -> None:
    form = "bf16" if x.has("BF16_V2", "BF16") else "f16"
    nan = x.has("NAN")
    xorsign = x.instruction.root == "HMNMX2" and x.has("XORSIGN")
    x.result()
    _halves(x, _SOURCES[:2] if x.instruction.root == "HMNMX2" else _SOURCES)
    x.predicate(0)
    x.emit(f"{x.instruction.root.lower()}_{form}{'_nan' * nan}{'_xorsign' * xorsign}")


@lowers("HSETP2", "HSET2")
def hset(x: Case) -> None:
    """Comparisons of two halves each: two predicates, or a register with a number for true in each half."""
    form = "bf16" if x.has("BF16_V2", "BF16") else "f16"
    as_float = x.instruction.root == "HSET2" and x.has("BF")
    x.set(at.I1, FLOAT_COMPARE[x.one_of(*FLOAT_COMPARE)])
    x.set(at.I0, COMBINE[x.one_of(*COMBINE)])
    if x.instruction.root == "HSET2":
        x.set(at.I2, {"f16": 0x3C00, "bf16": 0x3F80}[form] if as_float else 0xFFFF)
        x.result()
    else:
        x.predicate_result(0)
        x.predicate_result(1)
    _halves(x, _SOURCES[:2])
    x.predicate(0)
    x.emit(f"{x.instruction.root.lower()}_{form}")


# -- conversions ---------------------------------------------------------------------------------------------------


_F8 = ("E5M2", "E4M3")


def _eight_bits(x: Case) -> None:
    """Packing into, and unpacking of, eight bits a number."""
    kind = _F8.index(x.one_of(*_F8))
    x.set(at.I0, kind)
    if x.has("UNPACK_B"):
        x.one_of("F16")
        x.result()
        operand = x.take()
        half = {(): 0, ("H0",): 0, ("H1",): 16}.get(operand.suffixes)
        if half is None or operand.kind not in ("R", "UR") or operand.negated or operand.absolute:
            raise x.refuse(f"the operand {operand.text}")
        x.set(at.A, x.register(operand.kind, operand.number, 1, writing=False))
        x.set(at.I1, half)
        x.emit("UNPACK_F8")
        return
    if not x.has("SATFINITE"):
        raise x.refuse("this packing")
    if x.has("UNPACK_B_MERGE_C"):  # of two halves in one register
        x.one_of("F16")
        x.result()
        x.source(at.A, "bits")
        x.source(at.C, "bits")
        x.set(at.I1, 1)
        x.emit("PACK_F8")
        return
    if not x.has("PACK_AB_MERGE_C"):
        raise x.refuse("this packing")
    x.one_of("F32")
    x.result()
    x.source(at.A, "float")
    x.source(at.B, "float")
    x.source(at.C, "bits")
    x.emit("PACK_F8")


@lowers("F2FP")
def f2fp(x: Case) -> None:
    if any(kind in x.mods for kind in _F8):
        _eight_bits(x)
        return
    if not x.has("PACK_AB"):
        raise x.refuse("not a packing of two floats")
    down, relu = x.has("RZ"), x.has("RELU")
    form = "bf16" if x.has("BF16") else "f16"
    x.has("F16", "F32")
    x.result()
    x.source(at.A, "float")
    x.source(at.B, "float")
    x.emit(f"pack_{form}{'_rz' * down}{'_relu' * relu}")


_FORMATS = ("F32", "F64", "F16", "BF16")  # as `engine/scalar.py` numbers them
_OVER_LANES = {
    ("F32", "F64"),
    ("F64", "F32"),
    ("F16", "F32"),
    ("BF16", "F32"),
    ("F32", "F16"),
    ("F32", "BF16"),
}
_HALVES = {(): 0, ("H0",): 0, ("H0_H0",): 0, ("H1",): 16, ("H1_H1",): 16}


def _number(x: Case, form: str) -> None:
    """Takes a source in one of the formats: of a half also where it stands."""
    if form not in ("F16", "BF16"):
        x.source(at.A, "double" if form == "F64" else "float", rows=2 if form == "F64" else 1)
        return
    operand = x.operands[0] if x.operands else x.take()
    shift = _HALVES.get(operand.suffixes)
    if shift is None:
        raise x.refuse(f"the operand {operand.text}")
    x.operands[0] = replace(operand, suffixes=())
    x.source(at.A, "half")
    x.set(at.I2, shift)


_ROUND = {"RM": "rm", "RP": "rp", "RZ": "rz"}
_DIRECTIONS = ("", "RZ", "RM", "RP")  # as `engine/scalar.py` numbers them


@lowers("F2F")
def f2f(x: Case) -> None:
    x.has("FTZ")
    target, source = x.mods[:2] if len(x.mods) >= 2 else ("", "")
    x.mods = x.mods[2:]
    if target not in _FORMATS or source not in _FORMATS or target == source:
        raise x.refuse("this conversion")
    rounding = x.one_of(*_ROUND, default="")
    if rounding and (target, source) != ("F32", "F64"):
        raise x.refuse(f"rounding of {target}")
    x.result(rows=2 if target == "F64" else 1)
    if (target, source) in _OVER_LANES and not rounding:
        style = {"F64": "double", "F16": "half", "BF16": "half"}.get(source, "float")
        x.source(at.A, style, rows=2 if source == "F64" else 1)
        x.emit(f"{target.lower()}_from_{source.lower()}")
        return
    _number(x, source)
    x.set(at.I0, _FORMATS.index(target) | _DIRECTIONS.index(rounding) << 4)
    x.set(at.I1, _FORMATS.index(source))
    x.emit("F2F_ANY")


@lowers("I2F", "I2FP")
def i2f(x: Case) -> None:
    rounding = x.one_of(*_ROUND, default="")
    x.has("RN")
    form = x.one_of(*_FORMATS, default="F32")
    wide = form == "F64"
    kind = x.one_of("U64", "S64", "U32", "S32", "U16", "S16", "U8", "S8", default="S32")
    if rounding and form not in ("F32", "F64"):
        raise x.refuse(f"rounding of {form}")
    if form == "F32" and kind in ("U32", "S32"):
        x.result()
        x.source(at.A)
        x.emit(f"i2f_{kind.lower()}{'_' * bool(rounding)}{rounding.lower()}")
        return
    x.result(rows=2 if wide else 1)
    operand = x.take()
    shift, suffixes = 0, list(operand.suffixes)
    if suffixes and suffixes[0][0] in "BH" and suffixes[0][1:].isdigit():
        shift = int(suffixes[0][1:]) * (8 if suffixes[0][0] == "B" else 16)
        suffixes = suffixes[1:]
    if suffixes or operand.absolute or operand.inverted or operand.negated:
        raise x.refuse(f"the operand {operand.text}")
    x.set(at.A, x.value(operand, "bits", 2 if kind.endswith("64") else 1))
    x.set(at.I0, int(kind[1:]) | (256 if kind[0] == "S" else 0) | shift << 16)
    x.set(at.I1, _FORMATS.index(form) | _DIRECTIONS.index(rounding) << 4)
    x.emit("I2F_ANY")


_TO_INTEGER = ("RN", "TRUNC", "FLOOR", "CEIL")


@lowers("F2I")
def f2i(x: Case) -> None:
    flush = x.has("FTZ")
    x.has("NTZ")
    form = x.one_of(*_FORMATS, default="F32")
    rounding = x.one_of("TRUNC", "FLOOR", "CEIL", default="RN")
    kind = x.one_of("U64", "S64", "U32", "S32", "U16", "S16", "U8", "S8", default="S32")
    x.result(rows=2 if kind.endswith("64") else 1)
    _number(x, form)
    x.set(at.I0, int(kind[1:]) | (256 if kind[0] == "S" else 0))
    x.set(at.I1, _FORMATS.index(form) | _TO_INTEGER.index(rounding) << 4 | flush << 8)
    x.emit("F2I")


@lowers("FRND")
def frnd(x: Case) -> None:
    flush, form = x.has("FTZ"), x.one_of(*_FORMATS, default="F32")
    rounding = x.one_of("TRUNC", "FLOOR", "CEIL", default="RN")
    x.result(rows=2 if form == "F64" else 1)
    _number(x, form)
    x.set(at.I1, _FORMATS.index(form) | _TO_INTEGER.index(rounding) << 4 | flush << 8)
    x.emit("FRND")
