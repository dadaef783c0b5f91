"""Runs kernels with lowered records, one program after another, on NumPy: what a GPU would write, record by record.

The kernel's own tensors are not computed; integers, loops, branches and the records are. Each thread of a stream is an
element of an array. Beside the memory it keeps the truth: which record was passed in which iterations, at which clock.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation, Region

from tileprobe.ir.accessors import attr_value, op_name

SCRATCH, BUFFER = 1 << 32, 1 << 40
SHARED_BYTES, OLD = 1 << 17, 0x5A5A5A5A5A5A  # shared memory has what another program left there
_STATEMENT = re.compile(r"(?:@(\w+) )?([\w.]+) (.*)")


@dataclass
class Passed:
    """A record that was passed: its slot, stream, the iterations around it, the clock it read."""

    slot: int
    stream: int
    iterations: tuple[int, ...]
    clock: int
    program: int


@dataclass
class Gpu:
    """`table` is the scratch of all programs, `arguments` the kernel's integers by position."""

    table: np.ndarray
    buffer: np.ndarray
    arguments: dict[int, int]
    unknown: int = 0  # what a condition is that depends on tensors
    unit: int = 5
    clock: int = 1000
    tick: int = 7
    passed: list[Passed] = field(default_factory=list)
    trips: dict[tuple[int, int, Operation], list[int]] = field(default_factory=lambda: defaultdict(list))

    def launch(self, kernel: Operation) -> Gpu:
        for program in range(len(self.table)):
            self.program, self.scratch_used, self.streams = program, 0, 1
            self.shared, self.shared_used = np.full(SHARED_BYTES // 8, OLD, np.uint64), 64
            block = kernel.regions[0].blocks[0]
            module = kernel.parent_op()
            self.threads = attr_value(module, "ttg.num-warps") * attr_value(module, "ttg.threads-per-warp")
            sizes = [self.arguments.get(n, 512) for n in range(len(block.args))]
            values = {a: n if str(a.type) in ("i32", "i64") else None for a, n in zip(block.args, sizes)}
            self._region(kernel.regions[0], values, 0, ())
        return self

    # -- control flow ----------------------------------------------------------------------------------------

    def _region(self, region: Region, values: dict, stream: int, around: tuple) -> list:
        block = region.blocks.first
        while block is not None:
            for op in block.ops:
                if op is not block.last_op:
                    self._op(op, values, stream, around)
            last = block.last_op
            if not last.successors:
                return [values.get(v) for v in last.operands]
            which, given = 0, list(last.operands)
            if len(last.successors) == 2:
                sizes = attr_value(last, "operandSegmentSizes")
                which = 0 if self._truth(values.get(last.operands[0])) else 1
                given = [last.operands[1 : 1 + sizes[1]], last.operands[1 + sizes[1] :]][which]
            block = last.successors[which]
            values.update((a, values.get(v)) for a, v in zip(block.args, given))
        return []

    def _truth(self, value: Any) -> bool:
        return bool(self.unknown if value is None else value)

    def _op(self, op: Operation, values: dict, stream: int, around: tuple) -> None:
        name = op_name(op)
        if name == "scf.for":
            low, up, step = (values.get(v) for v in op.operands[:3])
            carried = [values.get(v) for v in op.operands[3:]]
            trips = len(range(low, up, step))
            self.trips[self.program, stream, op].append(trips)
            for n, i in enumerate(range(low, up, step)):
                values.update(zip(op.regions[0].blocks[0].args, [i, *carried]))
                carried = self._region(op.regions[0], values, stream, (*around, n))
            values.update(zip(op.results, carried))
        elif name == "scf.while":
            carried, n = [values.get(v) for v in op.operands], 0
            while True:
                values.update(zip(op.regions[0].blocks[0].args, carried))
                goes, *given = self._region(op.regions[0], values, stream, around)
                if not (n < 3 if goes is None else goes):
                    break
                values.update(zip(op.regions[1].blocks[0].args, given))
                carried = self._region(op.regions[1], values, stream, (*around, n))
                n += 1
            values.update(zip(op.results, given))
        elif name == "scf.if":
            taken = op.regions[0 if self._truth(values.get(op.operands[0])) else 1]
            if taken.blocks.first is not None:
                values.update(zip(op.results, self._region(taken, values, stream, around)))
        elif name == "ttg.warp_specialize":
            holder = op.regions[1].blocks[0].first_op
            given = self._region(op.regions[0], values, stream, around)
            for region in holder.regions:
                operands = [values.get(v) for v in (holder.operands or op.operands)]
                self.streams += 1
                self._region(region, dict(zip(region.blocks[0].args, operands)), self.streams - 1, around)
            values.update(zip(op.results, given))
        else:
            self._plain(op, name, values, stream, around)

    # -- values ----------------------------------------------------------------------------------------------

    def _plain(self, op: Operation, name: str, values: dict, stream: int, around: tuple) -> None:
        held = [values.get(v) for v in op.operands]
        if "tileprobe" in str(op.location) and self._amd(op, name, held, values, stream, around):
            return
        if name == "tt.elementwise_inline_asm" and "tileprobe" in str(op.location):
            self._assembly(op, held, values, stream, around)
            return
        if not op.results:
            return
        found = None
        if name == "ttg.global_scratch_alloc" and attr_value(op, "third_party_allocation"):
            found = SCRATCH + self.program * self.table.itemsize * self.table.shape[1] + self.scratch_used
            self.scratch_used += attr_value(op, "nbytes")
        elif name == "ttg.local_alloc" and "tileprobe" in str(op.location):
            found = self.shared_used
            self.shared_used += 8 * math.prod(map(int, re.findall(r"(\d+)x", str(op.results[0].type))))
        elif name in ("tt.ptr_to_int", "tti.experimental_memdesc_to_i32"):
            found = held[0]
        elif name == "tt.make_range" and "tileprobe" in str(op.location):
            found = np.arange(attr_value(op, "end"), dtype=np.int64)
        elif name == "tt.splat":
            found = held[0]
        elif name == "tt.get_program_id":
            found = self.program if attr_value(op, "axis") in (0, None) else 0
        elif name == "tt.get_num_programs":
            found = len(self.table)
        elif name.startswith("arith."):
            found = _arith(op, name[6:], held)
        values[op.results[0]] = found

    # -- AMD -------------------------------------------------------------------------------------------------

    def _amd(self, op: Operation, name: str, held: list, values: dict, stream: int, around: tuple) -> bool:
        """Records in AMD's terms: buffer stores that the hardware drops when they are out of bounds, intrinsics."""
        if name == "llvm.mlir.poison":
            values[op.results[0]] = []
        elif name == "llvm.insertelement":  # vectors are lists, filled from the front
            assert held[2] == len(held[0])
            values[op.results[0]] = [*held[0], held[1]]
        elif name in ("tt.int_to_ptr", "llvm.bitcast") or (name == "llvm.inline_asm" and op.results):
            values[op.results[0]] = held[0]
        elif name == "llvm.inline_asm":
            assert attr_value(op, "asm_string").startswith(";")  # nothing but a comment
        elif name == "tt.load" and held[0] is not None:  # of the table; what a kernel loads is not known
            values[op.results[0]] = int(self.table.view(np.int64).reshape(-1)[(held[0] - SCRATCH) // 8])
        elif name == "llvm.call_intrinsic":
            intrinsic = attr_value(op, "intrin")
            if intrinsic == "llvm.amdgcn.raw.buffer.store":
                self._buffer_store(op, *held)
            if intrinsic == "llvm.readcyclecounter":
                self.clock += self.tick
                where = _record(op)
                if where is not None:
                    self.passed.append(Passed(where - 1, stream, around, self.clock, self.program))
            found = {
                "llvm.readcyclecounter": self.clock,
                "llvm.readsteadycounter": self.clock // 32 * 32,
                "llvm.amdgcn.workitem.id.x": np.arange(self.threads, dtype=np.int64),
            }
            if op.results:
                values[op.results[0]] = found.get(intrinsic, 5)  # a part of the unit's number
                self.unit = 5 << 7 | 5 << 4 | 5
        else:
            return False
        return True

    def _buffer_store(self, op: Operation, words: Any, buffer: list, at: Any, far: int, policy: int) -> None:
        """Words of each thread one after the other. What all threads share is not held against the buffer's size."""
        low, high, size, _ = buffer
        assert high < 1 << 16
        at = np.broadcast_to(at, self.threads).astype(np.uint64) & np.uint64(0xFFFFFFFF)
        place = (low & 0xFFFFFFFF) + (high << 32) + at.astype(np.int64) + int(far)
        for n, word in enumerate(words if isinstance(words, list) else [words]):
            self._store(at < size, place + 8 * n, np.broadcast_to(word, self.threads))

    # -- assembly --------------------------------------------------------------------------------------------

    def _assembly(self, op: Operation, held: list, values: dict, stream: int, around: tuple) -> None:
        text = attr_value(op, "asm_string").strip("{} ")
        if text == "v_mov_b64 $0, $1":
            values[op.results[0]] = held[0]
            return
        if text.startswith("ds_"):
            self._shared_assembly(op, text, held, values)
            return
        if "ld.global" in text:
            word = int(re.search(r"\+(\d+)\]", attr_value(op, "asm_string"))[1]) // 8
            base = (held[0] - SCRATCH) // 8
            for result, n in zip(op.results, (0, 1)):
                values[result] = int(self.table.view(np.int64).reshape(-1)[base + word + n])
            return
        first = len(op.results)
        registers: dict[str, Any] = {f"${n + first}": value for n, value in enumerate(held)}
        for statement in (part.strip() for part in text.split(";")):
            if statement and not statement.startswith(".reg"):
                self._statement(_STATEMENT.fullmatch(statement), registers, op, stream, around)
        for n, result in enumerate(op.results):
            if f"${n}" in registers:
                values[result] = registers[f"${n}"]

    def _shared_assembly(self, op: Operation, text: str, held: list, values: dict) -> None:
        """AMD's accesses to shared memory: all threads take part, none may leave it."""
        address = np.atleast_1d(held[0])
        if text.startswith("ds_read_b64"):
            values[op.results[0]] = self._load(np.full(address.shape, True), address)
        else:
            far = address + int(re.fullmatch(r"ds_write_b64 \$1, \$2 offset:(\d+)", text)[1])
            assert (far < SHARED_BYTES).all()
            self._store(np.full(far.shape, True), far, held[1])

    def _load(self, by: np.ndarray, address: np.ndarray) -> np.ndarray:
        assert (address[by] % 8 == 0).all()
        assert (address[by] < self.shared_used).all(), "a word outside of the records' shared memory"
        return np.where(by, self.shared[np.where(by, address, 0) // 8], 0).astype(np.uint64)

    def _statement(self, found: re.Match, r: dict, op: Operation, stream: int, around: tuple) -> None:
        by, name, rest = found.groups()
        if name == "setp.ne.b32":
            r["by"] = r["$2"] != 0
        elif ".v2." in name:
            at, first, second = re.fullmatch(r"\[\$1\+(\d+)\], \{(\S+), (\S+)\}", rest).groups()
            self._store(np.atleast_1d(r[by]), r["$1"] + int(at), r[first])
            self._store(np.atleast_1d(r[by]), r["$1"] + int(at) + 8, r[second])
        elif name.startswith("ld."):
            r["$0"] = self._load(np.atleast_1d(r[by]), np.atleast_1d(r["$1"]))
        elif name == "mov.b64" and rest in ("$0, $2", "$1, $3"):
            r[rest[:2]] = r[rest[4:]]
        elif rest == "$0, 0" or rest == "$0, $1" or name == "bar.warp.sync":
            pass  # a result that nobody reads, or that is loaded next
        elif name.startswith("st."):
            at, value = re.fullmatch(r"\[(\$\d)\+(\d+)\], (\S+)", rest).groups(), rest.split(", ")[1]
            self._store(np.atleast_1d(r[by]), r[at[0]] + int(at[1]), r[value])
        elif "%clock64" in rest:
            self.clock += self.tick
            r[rest.split(",")[0]] = self.clock
            where = _record(op)
            if where is not None:
                self.passed.append(Passed(where - 1, stream, around, self.clock, self.program))
        elif "%globaltimer" in rest:
            r[rest.split(",")[0]] = self.clock // 32 * 32
        elif "%smid" in rest:
            r[rest.split(",")[0]] = 5
        elif name == "cvt.u64.u32":
            r["unit"] = r[rest.split(", ")[1]]
        elif rest == "{low, high}, t":
            r["low"], r["high"] = r["t"] & 0xFFFFFFFF, r["t"] >> 32
        elif name == "selp.b32":
            yes, no, which = (r[each] for each in rest.split(", ")[1:])
            r["high"] = np.where(which, yes, no)
        elif rest == "high, $3":
            r["high"] = r["$3"]
        elif rest == "t, {low, high}":
            r["t"] = r["low"] | (np.asarray(r["high"], np.int64) << 32)
        else:
            raise AssertionError(f"unknown assembly {name} {rest}")

    def _store(self, by: np.ndarray, address: Any, value: Any) -> None:
        address = np.broadcast_to(address, by.shape)
        value = np.broadcast_to(np.asarray(value).astype(np.uint64), by.shape)
        flat = self.buffer.reshape(-1)
        for n in np.flatnonzero(by):
            if address[n] < SHARED_BYTES:
                assert 64 <= address[n] < self.shared_used, "a word outside of the records' shared memory"
                self.shared[int(address[n]) // 8] = value[n]
                continue
            place = int(address[n]) - BUFFER
            assert place % 8 == 0
            assert 0 <= place < flat.nbytes, f"a record outside of the buffer, at {place}"
            flat[place // 8] = value[n]


def _record(op: Operation) -> int | None:
    here = op.location.callee if hasattr(op.location, "callee") else op.location
    assert isinstance(here, FileLineColLoc)
    return here.line.data if here.filename.data in ("tileprobe.record", "tileprobe.shared_record") else None


_TWO = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b, "shli": lambda a, b: a << b, "shrsi": lambda a, b: a >> b,
    "divui": lambda a, b: a // b, "remui": lambda a, b: a % b, "divsi": lambda a, b: int(a / b),
    "remsi": lambda a, b: a - int(a / b) * b, "shrui": lambda a, b: a >> b, "minsi": np.minimum, "maxsi": np.maximum,
    "ceildivsi": lambda a, b: -(-a // b), "minui": lambda a, b: min(a, b, key=lambda v: v & 0xFFFFFFFF),
}  # fmt: skip
_COMPARE = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
)


def _arith(op: Operation, name: str, held: list) -> Any:
    if name == "constant":
        value = attr_value(op, "value")
        return int(value) if isinstance(value, (int, bool)) else None
    if any(value is None for value in held):
        return None
    if name == "cmpi":
        found = _COMPARE[attr_value(op, "predicate")](*held)
        return found if isinstance(found, np.ndarray) else bool(found)
    if name == "select":
        if isinstance(held[0], np.ndarray):
            return np.where(*held)
        return held[1] if held[0] else held[2]
    if name == "extsi":
        return _signed(held[0], op.operands[0])
    if name == "index_cast":
        return held[0]
    if name == "extui":
        return (
            held[0].astype(np.int64)
            if isinstance(held[0], np.ndarray)
            else int(held[0]) & _mask(op.operands[0])
        )
    if name == "trunci":
        return _signed(held[0] & _mask(op.results[0]), op.results[0])
    return _TWO[name](*held) if name in _TWO else None


def _signed(number, value):
    """The low bits of a number as those of a signed one."""
    half = (_mask(value) + 1) // 2
    return (number ^ half) - half if isinstance(number, int) and half > 1 and number >= half else number


def _mask(value) -> int:
    kind = str(value.type)
    return (1 << int(kind[1:])) - 1 if kind[0] == "i" and kind[1:].isdigit() else (1 << 64) - 1
