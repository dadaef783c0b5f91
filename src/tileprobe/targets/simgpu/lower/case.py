"""One instruction on its way to a micro-op, and the table of those who know how.

A lowering is a function of a `Case`, registered with `lowers` under the opcodes it knows. It takes operands and
modifiers one by one; what nobody has taken in the end is not understood, and the instruction is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.table import known, number
from tileprobe.targets.simgpu.errors import UnknownInstruction
from tileprobe.targets.simgpu.listing import BYTES, Instruction
from tileprobe.targets.simgpu.operands import RZ, URZ, Operand, read, read_address

# What the upper number of a source is, and the lower one: `H0_NH1` is the lower half above the upper one's negative.
_HALVES = re.compile("(N?)H([01])_(N?)H([01])")
LOWERINGS: dict[str, Callable[[Case], None]] = {}
_KNOWN = known()


def lowers(*roots: str) -> Callable[[Callable[[Case], None]], Callable[[Case], None]]:
    def keep(function: Callable[[Case], None]) -> Callable[[Case], None]:
        for root in roots:
            assert root not in LOWERINGS, root
            LOWERINGS[root] = function
        return function

    return keep


@dataclass
class Rows:
    """Rows of constants that a kernel's operands name: numbers, or words of a constant bank that a launch fills in."""

    numbers: dict[tuple[tuple[int, int], ...], int] = field(default_factory=dict)
    specs: list[tuple[int, int]] = field(default_factory=list)  # (-1, number) or (bank, offset)

    def offset(self, *specs: tuple[int, int]) -> int:
        """The operand field for these rows, one behind the other."""
        if specs not in self.numbers:
            self.numbers[specs] = len(self.specs)
            self.specs.extend(specs)
        return -at.ROW * (1 + at.ZERO_ROWS + self.numbers[specs])


ZERO = -at.ROW


@dataclass
class Kernel:
    """What the lowering of one instruction needs to know of all of them."""

    arch: int
    labels: dict[str, int]
    rows: Rows = field(default_factory=Rows)
    registers: int = 0  # the highest that is used, and one
    uniforms: int = 0  # of the uniform ones


class Case:
    """An instruction while it is lowered."""

    def __init__(self, instruction: Instruction, kernel: Kernel) -> None:
        self.instruction, self.kernel = instruction, kernel
        self.mods = list(instruction.mods)
        self.operands = [read(text) for text in instruction.operands]
        self.fields = np.zeros(at.UOP // 4, np.int32)
        self.fields[[at.D, at.A, at.B, at.C, at.E]] = at.W_TRASH, ZERO, ZERO, ZERO, ZERO
        self.fields[at.PD] = at.NOWHERE | at.NOWHERE << at.SECOND
        self.fields[at.PS] = at.PT | at.PT << at.SECOND
        self.uniform = instruction.root.startswith("U") or instruction.root in ("S2UR",)
        self.name = ""

    # -- refusing -------------------------------------------------------------------------------------------------

    def refuse(self, why: str = "") -> UnknownInstruction:
        return UnknownInstruction(self.instruction.text, self.instruction.place, why)

    def finish(self) -> np.ndarray:
        if self.mods:
            raise self.refuse(f"the modifier .{self.mods[0]}")
        if self.operands:
            raise self.refuse(f"the operand {self.operands[0].text}")
        if self.name not in _KNOWN:
            raise self.refuse(f"there is no handler {self.name!r}")
        self.fields[at.OP] = number(self.name)
        self.fields[at.GUARD] = self._guard()
        bits = self.instruction.word >> 105 & 0x1FFFFF
        self.fields[at.CONTROL] = bits
        return self.fields

    def _guard(self) -> int:
        text = self.instruction.guard
        code = at.PT if not text else self._slot(read(text), reading=True)
        return code | (at.UNIFORM if self.uniform else 0)

    # -- modifiers ------------------------------------------------------------------------------------------------

    def has(self, *names: str) -> bool:
        """Takes a modifier if it is there (any of these names, all of them)."""
        found = [name for name in self.mods if name in names]
        self.mods = [name for name in self.mods if name not in names]
        return bool(found)

    def one_of(self, *names: str, default: str | None = None) -> str:
        """Takes the one modifier of these that is there."""
        for name in self.mods:
            if name in names:
                self.mods.remove(name)
                return name
        if default is None:
            raise self.refuse("a modifier is missing")
        return default

    # -- operands -------------------------------------------------------------------------------------------------

    def take(self, place: int = 0) -> Operand:
        if not -len(self.operands) <= place < len(self.operands):
            raise self.refuse("an operand is missing")
        return self.operands.pop(place)

    def next_is(self, *kinds: str) -> bool:
        return bool(self.operands) and self.operands[0].kind in kinds

    def last_is(self, *kinds: str) -> bool:
        return bool(self.operands) and self.operands[-1].kind in kinds

    def set(self, field_number: int, value: int) -> None:
        value &= 0xFFFFFFFF
        self.fields[field_number] = value - (1 << 32) if value >> 31 else value

    def register(self, kind: str, n: int, rows: int, writing: bool) -> int:
        """The operand field of a register, or of so many from it on."""
        if n == (RZ if kind == "R" else URZ):
            if writing and rows > at.TRASH_ROWS:
                raise self.refuse("a wide result goes nowhere")
            return at.W_TRASH if writing else ZERO
        if kind == "UR":
            if n + rows > URZ:
                raise self.refuse("no such uniform registers")
            self.kernel.uniforms = max(self.kernel.uniforms, n + rows)
            return at.W_UNIFORM + at.ROW * n
        if n + rows > RZ:
            raise self.refuse("no such registers")
        self.kernel.registers = max(self.kernel.registers, n + rows)
        return at.W_REGISTERS + at.ROW * n

    def result(self, rows: int = 1, field_number: int = at.D) -> None:
        operand = self.take()
        if operand.kind not in ("R", "UR") or operand.suffixes or operand.negated or operand.absolute:
            raise self.refuse(f"{operand.text} is no result")
        self.set(field_number, self.register(operand.kind, operand.number, rows, writing=True))

    def source(self, field_number: int, style: str = "integer", rows: int = 1) -> Operand:
        """Takes the next operand as a source. Styles: `bits` has no modifiers, `integer` may be negated or inverted,
        `float` may be negated and made absolute, `half` and `double` likewise."""
        operand = self.take()
        self._modify(operand, field_number, style)
        self.set(field_number, self.value(operand, style, rows))
        return operand

    def value(self, operand: Operand, style: str, rows: int) -> int:
        """The operand field of what an operand stands for."""
        if operand.kind in ("R", "UR"):
            return self.register(operand.kind, operand.number, rows, writing=False)
        if operand.kind == "c":
            if operand.index:
                raise self.refuse("a constant whose place is in a register")
            specs = [(operand.bank, operand.number + 4 * n) for n in range(rows)]
            return self.kernel.rows.offset(*specs)
        if operand.kind == "hex" and style in ("bits", "integer"):
            words = [(-1, operand.number >> 32 * n & 0xFFFFFFFF) for n in range(rows)]
            return self.kernel.rows.offset(*words)
        if operand.kind in ("text", "hex") and style in ("float", "half"):
            return self.kernel.rows.offset((-1, self.instruction.immediate))
        if operand.kind in ("text", "hex") and style == "double":
            return self.kernel.rows.offset((-1, 0), (-1, self.instruction.immediate))
        raise self.refuse(f"the operand {operand.text}")

    def _modify(self, operand: Operand, field_number: int, style: str) -> None:
        literal = operand.kind in ("hex", "text")
        n = field_number - at.A
        suffixes = [s for s in operand.suffixes if not (style == "double" and s == "64")]
        bits = 0
        if operand.negated and not literal:
            bits |= 1 << at.NEGATE + n
        if operand.absolute:
            bits |= 1 << at.ABSOLUTE + n
        if operand.inverted:
            bits |= 1 << at.INVERT + n
        if style == "half" and suffixes:
            halves = _HALVES.fullmatch(suffixes[0])
            if halves is None or len(suffixes) > 1:
                raise self.refuse(f"the operand {operand.text}")
            bits |= ((halves[2] == "0") | (halves[4] == "1") << 1) << at.HALVES + 2 * n
            bits |= (bool(halves[3]) | bool(halves[1]) << 1) << at.NEGATE_HALVES + 2 * n
            suffixes = []
        signs = {"bits": (), "integer": ("negated", "inverted")}.get(style, ("negated", "absolute"))
        wrong = [s for s in ("negated", "absolute", "inverted") if getattr(operand, s) and s not in signs]
        if suffixes or (wrong and not literal) or (bits and n not in (0, 1, 2)):
            raise self.refuse(f"the operand {operand.text}")
        self.fields[at.MODS] |= bits

    @property
    def modified(self) -> bool:
        """Whether a source is negated or absolute."""
        return bool(self.fields[at.MODS] & 0x3F)

    # -- predicates -----------------------------------------------------------------------------------------------

    def _slot(self, operand: Operand, reading: bool) -> int:
        if operand.kind not in ("P", "UP") or (operand.negated and not reading):
            raise self.refuse(f"the operand {operand.text}")
        slot = operand.number + (8 if operand.kind == "UP" else 0)
        if not reading and operand.number == 7:
            return at.NOWHERE
        return slot | (at.NEGATED if operand.negated else 0)

    def predicate_result(self, n: int = 0) -> None:
        self._put_predicate(at.PD, n, self._slot(self.take(), reading=False))

    def predicate(self, n: int = 0, place: int = 0) -> None:
        """Takes a predicate operand, the next one or the last."""
        self._put_predicate(at.PS, n, self._slot(self.take(place), reading=True))

    def false(self, n: int = 0) -> None:
        """A predicate operand that does not hold."""
        self._put_predicate(at.PS, n, at.PT | at.NEGATED)

    def _put_predicate(self, field_number: int, n: int, code: int) -> None:
        before = int(self.fields[field_number])
        self.fields[field_number] = before & ~(0xFF << at.SECOND * n) | code << at.SECOND * n

    # -- places in the code and in memory -------------------------------------------------------------------------

    def label(self) -> int:
        """Takes a label: the number of an instruction."""
        operand = self.take()
        if operand.kind != "label" or operand.text not in self.kernel.labels:
            raise self.refuse(f"there is no place {operand.text}")
        return self.kernel.labels[operand.text] // BYTES

    def address(
        self, wide: bool, place: int = 0, fields: tuple[int, int, int, int] = (at.A, at.B, at.I0, at.I1)
    ) -> None:
        """Takes an address: register, uniform register, offset and how they are read."""
        from tileprobe.targets.simgpu.engine.lanes_address import PAIR_A, PAIR_B, SCALE_BIT

        operand = self.take(place)
        found = read_address(operand.text)
        if found is None or (found.wide and not wide):
            raise self.refuse(f"the address {operand.text}")
        pair = wide and not found.unsigned and found.register != RZ
        both = (
            wide and found.uniform != URZ and (found.uniform_wide or found.unsigned or found.register == RZ)
        )
        register, uniform, offset, how = fields
        self.set(register, self.register("R", found.register, 2 if pair else 1, writing=False))
        self.set(uniform, self.register("UR", found.uniform, 2 if both else 1, writing=False))
        self.set(offset, found.offset)
        scale = found.scale.bit_length() - 1
        self.set(how, PAIR_A * pair | PAIR_B * both | scale << SCALE_BIT)

    def emit(self, name: str) -> None:
        self.name = name
