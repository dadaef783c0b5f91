"""Memory of a launch, as the engine wants it: rows of constants, blocks of programs and warps, ranges, banks.

In come a decoded kernel, its parameters and what memory it may touch; out goes `Worker`, one for each thread that runs
programs. All of it is NumPy arrays, which the worker holds as long as it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tileprobe.targets.simgpu.arguments import Named
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine.copies import COPY, RING
from tileprobe.targets.simgpu.errors import BadCubin
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.watching import Watch

# Where the driver leaves what every kernel may ask for, in constant bank 0.
_BLOCK, _WINDOWS, _STACK = 0x0, 0x18, 0x28  # windows: generic addresses of shared and local memory
# sm_90: programs of a cluster by dimension, the same inverted as floats, clusters of the grid, programs of a cluster
_CLUSTER, _CLUSTER_INVERSE, _CLUSTERS, _CLUSTER_PROGRAMS = 0x144, 0x150, 0x15C, 0x188
_PARAMETER_ADDRESS = {90: 0x198}  # generic address of the parameters
_SHARED_BASE = {80: 0, 90: 0x400}  # where a program's shared memory begins: sm_90 keeps 1 KB for itself
_LOCAL_BYTES = 1024  # the least a thread has
_ALIGN = 64


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def aligned(size: int) -> np.ndarray:
    """Zeroed bytes that begin at a multiple of 64."""
    raw = np.zeros(size + _ALIGN, np.uint8)
    skip = -address(raw) % _ALIGN
    return raw[skip : skip + size]


@dataclass
class Image:
    """A kernel with its parameters, ready for all threads of a launch."""

    program: Program
    threads: int
    shared_bytes: int
    banks: dict[int, np.ndarray]
    constants: np.ndarray
    bank_table: np.ndarray
    ranges: np.ndarray
    table: np.ndarray
    functions: dict[int, str]
    keep: list[Any] = field(default_factory=list)
    watch: Watch | None = None  # the checks of races
    cluster: int = 1  # programs of a cluster
    block: tuple[int, int, int] = (0, 1, 1)  # threads along each axis
    fast_sums: bool = False  # tensor cores add in plain single precision
    names: Sequence[Named] = ()  # of the arguments that are tensors
    given: Sequence[tuple[int, int]] = ()  # memory of the tensors that it was given
    log: int = 0  # so many issued instructions are noted
    free: Sequence[int] = ()  # instructions that take no time
    busy: int = 0  # so many intervals of units are noted
    touched: bool = False  # whether what each access does to memory is counted
    delays: Mapping[int, int] = field(
        default_factory=dict
    )  # source lines, after which a warp waits so many cycles
    faster: Mapping[int, float] = field(default_factory=dict)  # source lines that take so many times less
    without: Sequence[int] = ()  # source lines whose instructions take no time
    searches: bool = False  # whether an unknown address may be one of a tensor that was not given
    took: Any = None  # `Timed`, once it has run with time
    races: list[str] = field(default_factory=list)  # what the checks found, once it has run

    @cached_property
    def uops(self) -> np.ndarray:
        """The kernel's micro-ops, with other handlers for products where sums are to be fast."""
        return with_fast_sums(self.program.uops) if self.fast_sums else self.program.uops

    @property
    def warps(self) -> int:
        return (self.threads + 31) // 32


def image(
    program: Program,
    grid: tuple[int, int, int],
    threads: int,
    shared_bytes: int,
    parameters: bytes,
    ranges: list[tuple[int, int]],
    cluster: int = 1,
    block: tuple[int, int, int] | None = None,
) -> Image:
    from tileprobe.targets.simgpu.engine.table import table

    banks = {n: np.frombuffer(data, np.uint8).copy() for n, data in program.cubin.banks.items()}
    base = program.cubin.parameter_base
    first = aligned(max(len(banks.get(0, b"")), base + len(parameters), 0x300))
    banks[0] = first
    first[base : base + len(parameters)] = np.frombuffer(parameters, np.uint8)
    stack = local_bytes(program)
    block = block or (threads, 1, 1)
    _put(first, _BLOCK, np.array([*block, grid[0] * cluster, *grid[1:]], np.uint32))
    if program.arch >= 90:
        _put(first, _CLUSTER, np.array([cluster, 1, 1], np.uint32))
        _put(first, _CLUSTER_INVERSE, np.array([1 / cluster, 1, 1], np.float32))
        _put(first, _CLUSTERS, np.array(grid, np.uint32))
        _put(first, _CLUSTER_PROGRAMS, np.array([cluster], np.uint32))
    _put(first, _WINDOWS, np.array([at.SHARED_WINDOW, at.LOCAL_WINDOW], np.uint64))
    _put(first, _STACK, np.array([stack], np.uint32))
    if program.arch in _PARAMETER_ADDRESS:
        _put(first, _PARAMETER_ADDRESS[program.arch], np.array([address(first) + base], np.uint64))
    held, functions = _relocate(program, banks)
    spans = [*ranges, *((address(m), address(m) + len(m)) for m in held)]
    spans.append((address(first) + base, address(first) + base + len(parameters)))
    bank_table = np.zeros((32, 2), np.int64)
    for n, data in banks.items():
        if n < len(bank_table):
            bank_table[n] = address(data), len(data)
    return Image(
        program, threads, shared_bytes, banks, _constants(program, banks), bank_table,
        np.array(spans or [(0, 0)], np.int64), table(), functions, held, cluster=cluster, block=block,
    )  # fmt: skip


def with_fast_sums(uops: np.ndarray) -> np.ndarray:
    """The same micro-ops, but tensor cores add in plain single precision instead of the hardware's cut-off sums."""
    from tileprobe.targets.simgpu.engine.groups import FAST_SUMS
    from tileprobe.targets.simgpu.engine.table import known, number

    made = uops.copy()
    for name in known():
        stem, _, machine = name.rpartition("_")
        if name.startswith("hmma_") and machine != "fast":
            made[uops[:, at.OP] == number(name), at.OP] = number(f"{stem}_fast")
    made[uops[:, at.OP] == number("HGMMA"), at.I1] |= FAST_SUMS
    return made


def _put(bank: np.ndarray, offset: int, values: np.ndarray) -> None:
    data = values.view(np.uint8)
    bank[offset : offset + len(data)] = data


def local_bytes(program: Program) -> int:
    """Local memory of a thread: what the code says it needs, rounded up."""
    return max(_LOCAL_BYTES, (program.cubin.stack_bytes + 1023) & ~1023)


def _relocate(program: Program, banks: dict[int, np.ndarray]) -> tuple[list[np.ndarray], dict[int, str]]:
    """Gives initialised memory a place and writes addresses into the banks."""
    memory = {name: np.frombuffer(data, np.uint8).copy() for name, data in program.cubin.memory.items()}
    functions: dict[int, str] = {}
    for entry in program.cubin.relocations:
        bank = banks.get(entry.bank)
        if bank is None or entry.offset + 8 > len(bank):
            raise BadCubin(f"a relocation lies outside of constant bank {entry.bank}")
        if entry.function:
            value = at.FUNCTION_WINDOW + 16 * len(functions)
            functions[value] = entry.function
        elif entry.section in memory:
            value = address(memory[entry.section]) + entry.value
        else:
            raise BadCubin(f"a relocation names the section {entry.section!r}, which has no memory")
        _put(bank, entry.offset, np.array([value], np.uint64))
    return list(memory.values()), functions


def _constants(program: Program, banks: dict[int, np.ndarray]) -> np.ndarray:
    """Rows of constants, the zeros first. Row 0 is never named."""
    words = np.zeros(1 + at.ZERO_ROWS + len(program.specs), np.uint32)
    for n, (bank, value) in enumerate(program.specs.tolist()):
        if bank < 0:
            words[1 + at.ZERO_ROWS + n] = value
            continue
        data = banks.get(bank)
        if data is None or not 0 <= value <= len(data) - 4:
            raise BadCubin(f"{program.name} reads constant bank {bank} at {value:#x}, which it does not have")
        words[1 + at.ZERO_ROWS + n] = data[value : value + 4].view(np.uint32)[0]
    rows = aligned(len(words) * at.ROW).view(np.uint32).reshape(-1, at.LANES)
    rows[:] = words[:, None]
    return rows


class Block:
    """Memory of one program that runs: its warps, shared and local memory, and what is known of them."""

    def __init__(self, made: Image, checks: int, cluster: np.ndarray, rank: int = 0, races: int = 0) -> None:
        self.image, self.rank = made, rank
        program = made.program
        self.warp_bytes = at.W_REGISTERS + at.ROW * program.registers
        self.warps = aligned(made.warps * self.warp_bytes)
        self.local_bytes = local_bytes(program)
        self.local = aligned(made.warps * self.local_bytes * at.LANES) if program.local else aligned(64)
        self.copies = aligned(made.warps * RING * COPY if program.copies else 64)
        self.bulk = aligned(at.ASYNC * (at.ASYNC_ROOM + 1))
        self.shared = aligned(max(made.shared_bytes, 1))
        self.shadow = aligned(max(made.shared_bytes, 1))
        self.scratch = aligned(at.CTA_SCRATCH_BYTES)
        self.cta = aligned(at.CTA_BYTES)
        self.template = self._template()
        self.warps[:] = self.template
        fill(self.cta, {
            at.CTA_UOPS: address(made.uops), at.CTA_UOP_COUNT: len(made.uops),
            at.CTA_CONSTANTS: address(made.constants), at.CTA_WARPS: address(self.warps),
            at.CTA_WARP_BYTES: self.warp_bytes, at.CTA_WARP_COUNT: made.warps, at.CTA_SHARED: address(self.shared),
            at.CTA_SHARED_BASE: _SHARED_BASE[made.program.arch], at.CTA_SHARED_BYTES: made.shared_bytes,
            at.CTA_RANGES: address(made.ranges), at.CTA_RANGE_COUNT: len(made.ranges),
            at.CTA_BANKS: address(made.bank_table), at.CTA_SCRATCH: address(self.scratch),
            at.CTA_TABLE: address(made.table), at.CTA_ASYNC: address(self.bulk),
            at.CTA_SHADOW: address(self.shadow), at.CTA_TEMPLATE: address(self.template),
            at.CTA_CLUSTER: address(cluster), at.CTA_CHECKS: checks, at.CTA_RACES: races,
        })  # fmt: skip

    def _template(self) -> np.ndarray:
        """The warps of a program before its first instruction."""
        blocks = aligned(len(self.warps)).reshape(self.image.warps, self.warp_bytes)
        lanes = np.arange(at.LANES, dtype=np.uint32)
        width, height, _ = self.image.block
        program = self.image.program
        for n, block in enumerate(blocks):
            words = block.view(np.uint32)
            words[(at.W_PRED // 4) + at.PT] = words[(at.W_PRED // 4) + at.UPT] = 0xFFFFFFFF
            threads = min(at.LANES, self.image.threads - at.LANES * n)
            there = (1 << threads) - 1
            words[at.W_ACTIVE // 4], words[at.W_EXITED // 4] = there, ~there & 0xFFFFFFFF
            words[at.W_NUMBER // 4], words[at.W_AGENT // 4] = n, self.rank * self.image.warps + n
            fill(block[at.W_STEPS : at.W_STEPS + 64], {
                at.W_COPIES - at.W_STEPS: address(self.copies) + n * RING * COPY * program.copies,
                at.W_CTA - at.W_STEPS: address(self.cta),
                at.W_LOCAL - at.W_STEPS: address(self.local) + n * self.local_bytes * at.LANES,
                at.W_LOCAL_BYTES - at.W_STEPS: self.local_bytes if self.image.program.local else 0,
            })  # fmt: skip
            rows = words[at.W_SPECIAL // 4 : at.W_TRASH // 4].reshape(-1, at.LANES)
            thread = at.LANES * n + lanes
            special = {
                "SR_TID.X": thread % width, "SR_TID.Y": thread // width % height,
                "SR_TID.Z": thread // (width * height), "SR_LANEID": lanes, "SR_SWINHI": at.SHARED_WINDOW >> 32,
                "SR_EQMASK": 1 << lanes, "SR_LTMASK": (1 << lanes) - 1, "SR_LEMASK": (2 << lanes.astype(np.uint64)) - 1,
                "SR_VIRTID": 0, "SR_NTID": self.image.threads,
            }  # fmt: skip
            special["SR_GTMASK"] = ~np.asarray(special["SR_LEMASK"]).astype(np.uint32)
            special["SR_GEMASK"] = ~np.asarray(special["SR_LTMASK"]).astype(np.uint32)
            for name, value in special.items():
                rows[at.SPECIAL.index(name)] = value
        return blocks.reshape(-1)


def fill(block: np.ndarray, values: dict[int, int]) -> None:
    """64-bit fields of a block."""
    words = block.view(np.int64)
    for place, value in values.items():
        words[place // 8] = value


class Worker:
    """One thread's programs: a block for each that runs (those of a cluster, or one), and which come after them."""

    def __init__(self, made: Image, grid: tuple[int, int, int], first: int, stride: int, checks: int) -> None:
        self.image, self.grid = made, grid
        self.cluster = aligned(at.CLUSTER_MEMBERS + 8 * made.cluster)
        watched = [one.address for one in made.watch.of_programs()] if made.watch else [0] * made.cluster
        self.blocks = [Block(made, checks, self.cluster, *one) for one in enumerate(watched)]
        members = {at.CLUSTER_MEMBERS + 8 * n: address(block.cta) for n, block in enumerate(self.blocks)}
        fill(self.cluster, {at.CLUSTER_SIZE: made.cluster, **members})
        self.block = aligned(at.WORKER_BYTES)
        fill(self.block, {
            at.WORKER_CLUSTER: address(self.cluster), at.WORKER_NEXT: first, at.WORKER_END: grid[0] * grid[1] * grid[2],
            at.WORKER_STRIDE: stride, at.WORKER_X: grid[0], at.WORKER_Y: grid[1],
            at.WORKER_UNIFORM_BYTES: at.ROW * made.program.uniforms,
        })  # fmt: skip

    def take(self, number: int, stop: int) -> None:
        """Goes on with other programs."""
        fill(self.block, {at.WORKER_NEXT: number, at.WORKER_END: stop, at.WORKER_BUSY: 0})

    @property
    def current(self) -> Block:
        """The program that issued last."""
        return self.blocks[self.worker_field(at.WORKER_CURRENT)]

    def allow(self, span: tuple[int, int]) -> None:
        """More memory that the kernel may touch."""
        self.ranges = np.vstack([getattr(self, "ranges", self.image.ranges), np.array([span], np.int64)])
        for block in self.blocks:
            fill(block.cta, {at.CTA_RANGES: address(self.ranges), at.CTA_RANGE_COUNT: len(self.ranges)})

    def get(self, place: int) -> int:
        """A field of the program's block."""
        return int(self.current.cta.view(np.int64)[place // 8])

    def set(self, place: int, value: int) -> None:
        self.current.cta.view(np.int64)[place // 8] = value

    def worker_field(self, place: int) -> int:
        return int(self.block.view(np.int64)[place // 8])

    def warp(self, number: int) -> np.ndarray:
        block = self.current
        return block.warps[number * block.warp_bytes : (number + 1) * block.warp_bytes]
