"""A chip of multiprocessors that runs a launch with time.

In come a kernel's image, its grid and a machine; out goes `Timed`: cycles, what was counted, and for each instruction
how often it was issued and what its warps waited for. Addresses of tensors on the chip are given in the order in which
they are first used, so that the same script takes the same time in every process.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from tileprobe.targets.simgpu import execute, report, system
from tileprobe.targets.simgpu.blocks import Image, Worker, address, aligned, fill
from tileprobe.targets.simgpu.circles import Circles
from tileprobe.targets.simgpu.engine import layout as at
from tileprobe.targets.simgpu.engine import timed_layout as tl
from tileprobe.targets.simgpu.engine.timed import help_timed, run_timed
from tileprobe.targets.simgpu.machine import Machine, Timing
from tileprobe.targets.simgpu.program import Program
from tileprobe.targets.simgpu.settings import settings
from tileprobe.targets.simgpu.timing.busy import Busy, groups_of
from tileprobe.targets.simgpu.timing.instructions import rows, sooner
from tileprobe.targets.simgpu.timing.log import Log, Logged
from tileprobe.targets.simgpu.timing.part import ENDS, Part
from tileprobe.targets.simgpu.timing.touched import Touched, Touching

_QUANTUM = 128  # cycles of a turn: less than the way to L2 and back
_QUANTA = 2000  # between two looks at Ctrl-C
_ALIGN = 512  # of a tensor on the chip, as the driver's allocations
_SECTOR = 32
_ROOM = 7168  # requests to L2 of a multiprocessor in a turn, after which it stops until they are answered
_PATIENCE = 64  # such looks before programs are looked at for going round in circles: some ten milliseconds on the chip
_AGAIN = (
    3  # times that they are found where they were: what waits in memory's queues is not compared, and passes
)
_ALONE = 8  # turns of a launch before other threads take part: it may be over by then


class Space:
    """Where tensors lie on the chip. What is seen again keeps its place."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}  # by its first byte: bytes, place
        self._next = 1 << 20
        self._lock = threading.Lock()

    def place(self, start: int, end: int) -> int:
        with self._lock:
            size, place = self._known.get(start, (-1, 0))
            if end - start > size:
                place = self._next
                self._known[start] = end - start, place
                self._next += -(-max(end - start, 1) // _ALIGN) * _ALIGN
            return place


@dataclass(frozen=True)
class Timed:
    """What a launch took, and what was counted."""

    cycles: int
    instructions: int
    occupancy: int  # programs a multiprocessor
    counters: dict[str, int]
    statistics: np.ndarray  # for each instruction: how often it was issued, cycles lost by each of `REASONS`
    lanes: np.ndarray  # of each, those that were on, of all its issues
    log: Logged | None = None  # what was issued when, where somebody asked
    rows: np.ndarray | None = None  # how each instruction is timed (`timing/instructions.py`)
    touched: Touched | None = None  # what each instruction did to memory, likewise
    part: Part | None = None  # which programs were timed
    busy: Busy | None = None  # when units were, where somebody asked
    ends: np.ndarray | None = None  # of these, begin, end and slot (`timing/part.py`)

    def reasons(self) -> dict[str, int]:
        return dict(zip(tl.REASONS, self.statistics[:, 1:].sum(0).tolist()))


def by_line(program: Program, statistics: np.ndarray) -> dict[tuple[str, int], np.ndarray]:
    """Rows of instructions, summed for each source line."""
    rows: dict[tuple[str, int], np.ndarray] = {}
    for n, row in enumerate(statistics):
        key = program.file_names[program.files[n]], int(program.lines[n])
        rows[key] = rows[key] + row if key in rows else row
    return rows


def all_of(program: Program, line: int) -> np.ndarray:
    """Instructions that come from a line of the kernel's own file."""
    return np.flatnonzero((program.lines == line) & (program.files == program.files[0]))


def firsts_of(program: Program, line: int) -> np.ndarray:
    """The first of each row of them."""
    mine = all_of(program, line)
    return mine[np.diff(mine, prepend=-2) > 1]


class Chip:
    """All multiprocessors, and the L2 and DRAM that they share. Caches keep what they have between launches."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.space = machine, Space()
        self._lock = threading.Lock()
        timing, clock = machine.timing, machine.clock_mhz * 1e6
        lines = machine.cache_bytes // 128
        self.l2_sets = lines // tl.L2_WAYS // 2 * 2  # in two halves
        self.l2 = aligned(tl.TAG_BYTES * tl.L2_WAYS * self.l2_sets)
        self.channels = aligned(tl.CHANNEL * timing.dram_channels)
        dram = timing.dram_bytes_second / clock / timing.dram_channels
        slices = tl.PARTS * timing.l2_slices / machine.multiprocessors
        self.slices = aligned(8 * timing.l2_slices)
        numbers = {name: getattr(timing, name, 0) for name in tl.MACHINE}
        numbers |= {
            "l2_parts_sector": round(_SECTOR / timing.l2_bytes_cycle * slices),
            "way_parts_sector": round(_SECTOR / timing.way_bytes_cycle * tl.PARTS),
            "dram_parts_sector": round(_SECTOR / dram * tl.PARTS),
            "store_parts_sector": round(_SECTOR / timing.l2_store_bytes_cycle * slices),
            "program_parts": round(timing.program_interval * tl.PARTS),
            "dram_turn_parts": round(4 * _SECTOR / dram * tl.PARTS * timing.dram_turn),
        }
        for name in ("address_interval", "shared_interval"):
            numbers[name] *= tl.PARTS
        self.numbers = np.array([numbers[name] for name in tl.MACHINE], np.int64)

    def cold(self) -> None:
        """Empties the caches, and forgets where tensors lay: the next launch takes what it would as the first one."""
        self.l2[:] = 0
        self.space = Space()

    def overwrite(self) -> None:
        """Fills L2 with lines of other memory, as writing a buffer larger than it does. Some are still changed."""
        tags = self.l2.view(np.int64).reshape(-1, tl.TAG_BYTES // 8)
        tags[:] = 0
        number = np.arange(len(tags))
        tags[:, tl.TAG // 8] = (1 << 40) + number
        changed = (
            number * 89 % 100 < 100 * self.machine.timing.l2_changed
        )  # spread over the ways of every set
        tags[:, tl.SECTORS // 8] = np.where(changed, 0xFF, 0x0F)

    def state(self) -> np.ndarray:
        """What its caches hold; `restore` brings it back."""
        return self.l2.copy()

    def restore(self, state: np.ndarray) -> None:
        self.l2[:] = state

    def run(
        self, made: Image, grid: tuple[int, int, int], checks: int, resident: int, step_limit: int
    ) -> Timed:
        """Runs all programs of a grid, of which so many are on a multiprocessor at a time."""
        # where the order of programs can be seen in what they compute one thread runs them, and all with time
        ordered = made.program.atomic
        parts = (0, 0) if ordered else (settings.waves, settings.sms)
        programs = grid[0] * grid[1] * grid[2]
        part = Part.of_launch(programs, self.machine.multiprocessors, resident, *parts)
        threads = 1 if ordered else settings.wanted_threads()
        with self._lock:
            if settings.cold:
                self.cold()
            launch = _Launch(self, made, grid, checks, part)
            launch.run(step_limit, threads)
        if not part.whole:
            launch.others = execute.others(made, grid, part.others(), threads, step_limit, checks)
        return launch.took()


def _shared_out(timing: Timing, numbers: np.ndarray, part: Part) -> tuple[int, int, np.ndarray]:
    """Channels of DRAM and slices of L2 that a part of the multiprocessors has, and the machine's numbers, so that they
    have their share of its bandwidth also where that is no whole channel, and of the programs that are dealt out."""
    channels, slices, share = timing.dram_channels, timing.l2_slices, part.share
    if share == 1:
        return channels, slices, numbers
    numbers = numbers.copy()
    counts = max(1, round(channels * share)), max(1, round(slices * share))
    for count, of, places in (
        (counts[0], channels, (tl.M_DRAM_SECTOR, tl.M_DRAM_TURN)),
        (counts[1], slices, (tl.M_L2_SECTOR, tl.M_STORE_SECTOR)),
        (1, 1, (tl.M_PROGRAM,)),
    ):
        for place in places:
            numbers[place // 8] = round(int(numbers[place // 8]) * count / (of * share))
    return *counts, numbers


class _Launch:
    def __init__(self, chip: Chip, made: Image, grid: tuple[int, int, int], checks: int, part: Part) -> None:
        machine = chip.machine
        self.chip, self.made, self.grid, self.part = chip, made, grid, part
        count, slots = part.multiprocessors, part.slots
        without = [n for line in made.without for n in all_of(made.program, line).tolist()]
        self.rows = rows(made.program, machine.timing, [*made.free, *without])
        self.rows[without, tl.STALL] = np.minimum(self.rows[without, tl.STALL], 1)  # of those that are issued
        for line, times in made.faster.items():
            sooner(self.rows, all_of(made.program, line), times)
        for line, cycles in made.delays.items():
            self.rows[firsts_of(made.program, line), tl.STALL] += cycles
        self.statistics = np.zeros((len(self.rows), tl.STATISTIC // 8), np.int64)
        self.places = np.array([chip.space.place(*span) for span in made.ranges.tolist()], np.int64)
        self._stop_lines()
        l1 = machine.timing.l1_bytes - slots * made.shared_bytes
        self.l1_sets = max(l1, 0) // (128 * tl.L1_WAYS)
        self.sms = [self._sm(n, slots, checks) for n in range(count)]
        self.addresses = np.array([address(sm) for sm, _ in self.sms], np.int64)
        self.log = None if not made.log else Log(made.log, [sm for sm, _ in self.sms], _QUANTUM)
        self.touched = Touching(len(self.rows), [sm for sm, _ in self.sms]) if made.touched else None
        self.block = aligned(tl.C_BYTES)
        self.order = aligned(tl.ORDERED * (_ROOM + tl.REQUEST_SLACK) * count)
        self.buckets = aligned(8 * tl.BUCKETS)
        self.helpers: list[tuple[np.ndarray, np.ndarray]] = []  # their copies of the block, and statistics
        self.ends = np.zeros(part.timed, ENDS)
        self.circles, self.looks, self.again = Circles(), 0, 0
        self.others = 0  # instructions of programs that are executed without time
        channels, slices, numbers = _shared_out(machine.timing, chip.numbers, part)
        self.numbers = numbers
        chip.channels[:] = 0
        chip.slices[:] = 0
        fill(self.block, {
            tl.C_COUNT: count, tl.C_SMS: address(self.addresses), tl.C_END: part.timed, tl.C_ROWS: address(self.rows),
            tl.C_L2: address(chip.l2), tl.C_L2_SETS: max(2, round(chip.l2_sets * part.share)),
            tl.C_SLICES: address(chip.slices), tl.C_SLICE_COUNT: slices,
            tl.C_CHANNELS: address(chip.channels), tl.C_CHANNEL_COUNT: channels, tl.C_RANGES_AT: address(self.places),
            tl.C_STATISTICS: address(self.statistics), tl.C_MACHINE: address(numbers), tl.C_QUANTUM: _QUANTUM,
            tl.C_MAIN: address(self.block), tl.C_ORDER: address(self.order), tl.C_BUCKETS: address(self.buckets),
            tl.C_TAKE: part.stride[0], tl.C_OF: part.stride[1], tl.C_PROGRAMS: address(self.ends.view(np.int64)),
            tl.C_TAKEN: count, tl.C_TOUCHED: 0 if self.touched is None else self.touched.rows(),
        })  # fmt: skip
        self.busy = self._busy()

    def _busy(self) -> Busy | None:
        if not self.made.busy:
            return None
        sms = [sm for sm, _ in self.sms]
        requests = (_ROOM + tl.REQUEST_SLACK) * len(sms)
        return Busy(self.made.busy, sms, self.block, groups_of(self.made.program)[0], _QUANTUM, requests)

    def _stop_lines(self) -> None:
        """What L2 keeps was used, and filled, before this launch began."""
        tags = self.chip.l2.view(np.int64).reshape(-1, tl.TAG_BYTES // 8)
        tags[:, tl.FILLED // 8] = 0
        used = tags[:, tl.USED // 8]
        if used.any():
            used -= used.max() + 1

    def _sm(self, number: int, slots: int, checks: int) -> tuple[np.ndarray, list[Worker]]:
        made = self.made
        workers = [Worker(made, self.grid, 0, 1, checks) for _ in range(slots)]
        held = [
            np.array([address(w.block) for w in workers], np.int64), aligned(tl.T_BYTES * slots * made.warps),
            aligned(tl.TAG_BYTES * tl.L1_WAYS * max(self.l1_sets, 1)), aligned(tl.LINE * (tl.LINES_ROOM + 64)),
            aligned(tl.REQUEST * (_ROOM + tl.REQUEST_SLACK)),
        ]  # fmt: skip
        block = aligned(tl.S_BYTES)
        fill(block, {
            tl.S_SLOTS: slots, tl.S_WORKERS: address(held[0]), tl.S_WARPS: address(held[1]),
            tl.S_WARP_COUNT: slots * made.warps, tl.S_PER_SLOT: made.warps, tl.S_NUMBER: number,
            tl.S_L1: address(held[2]), tl.S_L1_SETS: self.l1_sets, tl.S_LINES: address(held[3]), tl.S_DUE: tl.FAR,
            tl.S_PARTITION: number & 1, tl.S_REQUESTS: address(held[4]), tl.S_REQUEST_ROOM: _ROOM,
            **{tl.S_LAST + 8 * sub: -1 for sub in range(4)},
        })  # fmt: skip
        waits = held[1].view(np.int64).reshape(-1, tl.T_BYTES // 8)
        waits[:, tl.T_WAITS // 8] = 2  # an empty slot
        self.made.keep += held
        return block, workers

    def _field(self, place: int) -> int:
        return int(self.block.view(np.int64)[place // 8])

    def _sum(self, place: int) -> int:
        return sum(int(sm.view(np.int64)[place // 8]) for sm, _ in self.sms)

    def _worker(self) -> Worker:
        """The one whose program stopped the run."""
        sm, workers = self.sms[self._field(tl.C_FAULT_SM)]
        return workers[int(sm.view(np.int64)[tl.S_CURRENT // 8])]

    def run(self, step_limit: int, threads: int) -> None:
        quanta, others = _ALONE, min(threads, len(self.sms)) - 1
        with ThreadPoolExecutor(max(others, 1)) as pool:
            while (how := self._turns(quanta, pool if quanta != _ALONE else None, others)) != at.FINISHED:
                quanta = _QUANTA
                if how == at.QUANTUM:
                    self._endless(step_limit)
                    for noted in (self.log, self.busy):
                        if noted is not None:
                            noted.empty()
                elif how == at.SYSTEM_CALL:
                    system.call(self._worker())
                elif how == at.DEADLOCK:
                    raise report.deadlock(self._stuck())
                elif not execute.found(worker := self._worker()):
                    raise report.fault(worker)

    def _turns(self, quanta: int, pool: ThreadPoolExecutor | None, others: int) -> int:
        """So many turns, with other threads if there are any. How it ended."""
        block = address(self.block)
        fill(self.block, {tl.C_OVER: 0})
        if pool is None or not others:
            return run_timed(block, quanta)
        if not self.helpers:
            self.helpers = [self._helper() for _ in range(others)]
        helping = [pool.submit(help_timed, address(copy)) for copy, _ in self.helpers]
        try:
            return run_timed(block, quanta)
        finally:
            for each in helping:
                each.result()

    def _helper(self) -> tuple[np.ndarray, np.ndarray]:
        """A copy of the chip's block for another thread, which counts by itself."""
        copy, statistics = aligned(tl.C_BYTES), np.zeros_like(self.statistics)
        copy[:] = self.block
        fill(copy, {tl.C_STATISTICS: address(statistics)})
        if self.touched is not None:
            fill(copy, {tl.C_TOUCHED: self.touched.rows()})
        return copy, statistics

    def took(self) -> Timed:
        if self.busy is not None:
            self.busy.empty()
        ended, part = self.part.cycles(self.ends, self.numbers[tl.M_PROGRAM // 8] / tl.PARTS), self.part
        ended += max(0, self._field(tl.C_WRITTEN) - int(self.ends["end"].max(initial=0)))
        counters = {
            "dram_bytes_read": self._field(tl.C_DRAM_READ), "dram_bytes_written": self._field(tl.C_DRAM_WRITTEN),
            "l2_sectors_hit": self._field(tl.C_L2_HITS), "l2_sectors_missed": self._field(tl.C_L2_MISSES),
            "l1_sectors_hit": self._sum(tl.S_L1_HITS), "l1_sectors_missed": self._sum(tl.S_L1_MISSES),
            "bank_conflicts": self._sum(tl.S_CONFLICTS),
        }  # fmt: skip
        statistics = sum((each for _, each in self.helpers), self.statistics)
        if not part.whole:
            counters = {name: round(value * part.factor) for name, value in counters.items()}
            statistics = np.rint(statistics * part.factor).astype(np.int64)
        return Timed(
            ended + self.chip.machine.timing.launch_cycles, self._sum(tl.S_ISSUED) + self.others, part.slots, counters,
            statistics[:-1, :-1], statistics[:-1, -1], None if self.log is None else self.log.whole(), self.rows,
            None if self.touched is None else self.touched.whole(), part, self.busy, self.ends,
        )  # fmt: skip

    def _endless(self, step_limit: int) -> None:
        self.looks += 1
        if self.looks > _PATIENCE:
            self._round_in_circles()
        for _, workers in self.sms:
            for worker in workers:
                if worker.get(at.CTA_STEPS) > step_limit:
                    raise report.endless(worker, step_limit)

    def _round_in_circles(self) -> None:
        busy = [
            worker for _, workers in self.sms for worker in workers if worker.worker_field(at.WORKER_BUSY)
        ]
        after = self.circles.closed(busy, sum(worker.get(at.CTA_STEPS) for worker in busy))
        self.again += bool(after)
        if self.again == _AGAIN:
            raise report.in_circles(busy[0], after, len(busy))

    def _stuck(self) -> Worker:
        """The first program of the multiprocessor that cannot go on."""
        _, workers = self.sms[self._field(tl.C_FAULT_SM)]
        return next((w for w in workers if w.worker_field(at.WORKER_BUSY)), workers[0])
