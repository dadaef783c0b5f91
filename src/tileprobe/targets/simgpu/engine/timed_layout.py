"""Where things lie in the blocks that time is kept in: of a chip, of a multiprocessor, of a warp; and the row of
numbers that says how an instruction is timed.

Times are cycles, except for those of units and ways that serve more or less than one thing a cycle: these are kept in
parts of a cycle (`PARTS`). All fields are 64-bit unless they say other.
"""

from __future__ import annotations

PARTS = 64
FAR = 1 << 60  # no time is later

# -- how an instruction is timed: 32-bit fields ----------------------------------------------------------------------
ROW = 64  # bytes
(
    UNIT, INTERVAL, LATENCY, STALL, WRITE_BAR, READ_BAR, WAITS, KIND, BYTES, COUNT, SLOW, FREE, HINT, KEPT, READS,
) = range(15)  # fmt: skip
# KEPT is what is left of an instruction's time, as so many of WHOLE and fewer than MOST_KEPT; 0: nothing is changed
WHOLE, MOST_KEPT = 1 << 10, 1 << 16
# What it says of caches (PTX ISA, "Cache Operators" and "Cache Eviction Priority Hints"): its lines go first, go last,
# or it passes L1 by
GO_FIRST, GO_LAST, PAST_L1 = 1, 2, 3
ODD_READS = 8  # bits: READS has registers of the even bank, above them those of the odd one
NO_BAR = 7
# Units of a sub-partition. MEMORY's place is the queue before the address unit.
FMA, ALU, HALF, XU, DOUBLE, UNIFORM, TENSOR, MEMORY, CONTROL = range(9)
UNITS = 16  # places for them
# Kinds: how long it takes is the row's latency, or is found by what it touched
(
    FIXED, LOAD_GLOBAL, STORE_GLOBAL, LOAD_SHARED, STORE_SHARED, MATRIX_SHARED, COPY, ATOMIC_GLOBAL, ATOMIC_SHARED,
    LOCAL, GROUP, WAIT_GROUP, BARRIER, EXIT, BULK_LOAD, BULK_STORE, PRODUCT, WAIT_PRODUCT, MBARRIER, SLEEP,
) = range(20)  # fmt: skip

# -- why a warp did not issue, in Nsight Compute's words --------------------------------------------------------------
REASONS = (
    "wait", "long_scoreboard", "short_scoreboard", "barrier", "math_pipe_throttle", "mio_throttle", "not_selected",
    "gmma",
)  # fmt: skip
WAIT, LONG, SHORT, AT_BARRIER, PIPE, QUEUE, NOT_SELECTED, GMMA = range(8)
LANES = 8 * (1 + len(REASONS))  # behind them, the lanes that were on when it was issued
STATISTIC = (
    LANES + 8
)  # bytes for each instruction: how often it was issued, cycles lost by each reason, and LANES

# -- a warp ------------------------------------------------------------------------------------------------------------
(
    T_WARP, T_CTA, T_WORKER, T_READY, T_WHY, T_AGE, T_WAITS, T_COPIES_DONE, T_GROUPS, T_PRODUCTS, T_ISSUED, T_SLOT,
    T_PRODUCT_DONE, T_SINCE, T_EARLY, T_EARLY_WHY,
) = (8 * n for n in range(16))  # fmt: skip
T_BARS = 128  # six: when what they count is over
T_BAR_WHY = T_BARS + 48  # six: LONG or SHORT
T_PENDING = T_BAR_WHY + 48  # bits: barriers, and copies, whose end is known when the turn is over
PENDING_COPIES = 1 << 6
T_BAR = T_PENDING + 8  # which of the six it waits for longest, or one of these
NO_ONE, A_GROUP, A_PRODUCT = 7, 8, 9  # groups of copies, of products
T_BY = T_BAR + 8  # who let it go on from a barrier: cycle * 64 + warp of the instruction
T_OWED = T_BY + 8  # what its instructions took of less than a cycle, in parts of WHOLE
T_RING = 256  # 16 groups of copies: when they are over
T_PRODUCT_RING = T_RING + 128  # 16 groups of products
T_BYTES = 512

# -- a multiprocessor --------------------------------------------------------------------------------------------------
(
    S_NOW, S_LIVE, S_SLOTS, S_WORKERS, S_WARPS, S_WARP_COUNT, S_PER_SLOT, S_NUMBER, S_SHARED_FREE, S_PORT_FREE,
    S_L1, S_L1_SETS, S_LINES, S_DUE, S_ISSUED, S_CURRENT, S_STORE_FREE, S_TMA_FREE, S_CONFLICTS,
    S_L1_HITS, S_L1_MISSES, S_PARTITION, S_ENDED, S_LOG, S_LOG_COUNT, S_LOG_ROOM, S_REQUESTS, S_REQUEST_COUNT,
    S_REQUEST_ROOM, S_STOP, S_EXTRA, S_OPEN, S_SOONER,
) = (8 * n for n in range(33))  # fmt: skip
S_LAST = 264  # of each sub-partition: the warp that issued last, or -1
S_NEXT = S_LAST + 32  # of each sub-partition: before this nothing can be issued
S_UNITS = S_NEXT + 32  # 4 x UNITS: when they are free, in parts
S_QUEUE = S_UNITS + 4 * UNITS * 8  # 4 x 8: when the last eight accesses left the queue of the address unit
S_QUEUE_COUNT = S_QUEUE + 4 * 64  # 4: how many there were
# Lines that were touched, one behind the other: line and sectors, program, row of the instruction. There is room for
# S_TOUCHED_ROOM; the count goes on.
S_TOUCHED, S_TOUCHED_COUNT, S_TOUCHED_ROOM = (S_QUEUE_COUNT + 32 + 8 * n for n in range(3))
TOUCH = 24
# When units were busy, one behind the other: first and last part of a cycle, which unit, with which instruction (32
# bits each). There is room for a turn more than S_BUSY_ROOM says; 0: nothing is noted.
S_BUSY, S_BUSY_COUNT, S_BUSY_ROOM, S_PC = (S_TOUCHED_ROOM + 8 + 8 * n for n in range(4))
BUSY = 24
# Units by number: those of a sub-partition, UNITS for each; behind them those of the multiprocessor
ISSUE = 9
SHARED_DATA, L2_READ, L2_WRITE, BULK = (4 * UNITS + n for n in range(4))
S_BANKS = S_PC + 8  # 4 x 2: until when the two banks of registers of each sub-partition are read
S_BYTES = 2048
# What was issued, one behind the other: cycle, instruction and warp (32 bits each), program; what it waited for: who
# let it go on (T_BY), for how long (32 bits), reason and barrier (T_WHY + 16 * T_BAR). There is room for a turn more
# than S_LOG_ROOM says; 0: nothing is noted.
LOGGED = 40
LINES_ROOM = 256  # lines that one access may touch: number and mask of sectors each
LINE = 16

# -- what a multiprocessor has asked of L2 in a turn, in order; what belongs to one access ends with its `END` ---------
REQUEST, ORDERED = 64, 16  # bytes; in their order: the place of each, and the half of the chip that asks
Q_KIND, Q_LINE, Q_SECTORS, Q_ASKED, Q_PLACE, Q_FILLED = (8 * n for n in range(6))
Q_OLD = 48  # READ: until when L1 waited for the line before, or -1 if it had not got it
Q_HINT = 56
READ, WRITE, HIT, END, GROUP_END = range(5)  # HIT: a line of L1 that is asked for already
# Those that end an access: the earliest it is over, what comes on top, the warp, its age, what it is for, and where;
# and how much sooner it is over (`sooner`)
Q_FLOOR, Q_EXTRA, Q_WARP, Q_AGE, Q_FOR, Q_AT, Q_SOONER = 8, 16, 24, 32, 40, 48, 56
FOR_NOTHING, FOR_BAR, FOR_COPIES, FOR_BULK = range(4)
REQUEST_SLACK = 4 * 272  # beyond S_REQUEST_ROOM, what a cycle may add: four accesses of `LINES_ROOM` lines
# Why a multiprocessor stopped before its turn was over, beside faults of the engine
STOP_PROGRAM, STOP_ROOM, STOP_STUCK = 201, 202, 203

CHANNEL = 16  # of DRAM: when it is free, in parts; FOR_READ or FOR_CHANGED, what it did last

# -- a chip ------------------------------------------------------------------------------------------------------------
(
    C_COUNT, C_SMS, C_NEXT, C_END, C_ROWS, C_LIMIT, C_L2, C_L2_SETS, C_CHANNELS, C_CHANNEL_COUNT, C_RANGES_AT,
    C_STATISTICS, C_MACHINE, C_FAULT_SM, C_DRAM_READ, C_DRAM_WRITTEN, C_L2_HITS, C_L2_MISSES, C_QUANTUM,
    C_MAIN, C_ORDER, C_BUCKETS, C_ANSWERED, C_TOUCHED, C_TAKE, C_OF, C_PROGRAMS,
    C_BUSY, C_BUSY_COUNT, C_BUSY_ROOM, C_WRITTEN, C_DEALT, C_SLICES, C_SLICE_COUNT,
) = (8 * n for n in range(34))  # fmt: skip
# C_NEXT and C_END count the programs that have time: C_TAKE of each C_OF programs of the grid. At C_PROGRAMS, of each
# of them: when it began, when it ended, in which slot of which multiprocessor.
# At C_BUSY channels of DRAM, and from SLICES on slices of L2, as units of a multiprocessor are noted, with FOR_READ or
# FOR_CHANGED for an instruction.
# C_WRITTEN: when L2 has all that was stored; C_DEALT: when the next program can be dealt out, in parts; C_SLICES: when
# each slice of L2 is free, in parts.
FOR_READ, FOR_CHANGED = range(2)
SLICES = 4096
BEGUN, ENDED, WHERE = 0, 8, 16
PROGRAM = 24
# Words that threads meet by, each on a line of its own: multiprocessors that were taken in a turn, and that have had
# it; whether there are no more turns
C_TAKEN, C_DONE, C_OVER = 320, 384, 448
C_BYTES = 512
BUCKETS = 4096  # cycles that requests of a turn are put in order by; later ones are taken together

# -- what an instruction does to memory, where that is counted: sums, in global memory, then in shared -----------
(
    X_TIMES, X_LANES, X_ACTIVE, X_SECTORS, X_PASSES, X_LEAST, X_PAIRS, X_BESIDE, X_AGREED, X_STRIDE, X_VOTES, X_BITS,
) = (8 * n for n in range(12))  # fmt: skip
TOUCHED_SHARED = (
    96  # AGREED: pairs that were as far apart as the stride of then; BITS: of first addresses, together
)
TOUCHED = 192

# -- a line of a cache: its number (+ 1), sectors there (bits 0 to 3) and changed (4 to 7), when last used, when filled
TAG, SECTORS, USED, FILLED = 0, 8, 16, 24
TAG_BYTES = 32
L1_WAYS, L2_WAYS = 4, 16

# -- numbers of a machine, in this order in C_MACHINE -----------------------------------------------------------------
MACHINE = (
    "address_interval", "queue", "shared_interval", "latency_shared", "latency_l1", "latency_copy", "latency_l2",
    "latency_l2_far", "latency_dram", "l2_parts_sector", "dram_parts_sector", "latency_barrier", "read_hold",
    "latency_tma", "tma_gap", "latency_arrive", "latency_wait", "latency_atomic", "store_parts_sector",
    "latency_product", "dram_turn_parts", "store_ahead", "program_parts", "way_parts_sector",
)  # fmt: skip
(
    M_ADDRESS, M_QUEUE, M_SHARED, M_LAT_SHARED, M_LAT_L1, M_LAT_COPY, M_LAT_L2, M_LAT_L2_FAR, M_LAT_DRAM, M_L2_SECTOR,
    M_DRAM_SECTOR, M_LAT_BARRIER, M_HOLD, M_LAT_TMA, M_TMA_GAP, M_LAT_ARRIVE, M_LAT_WAIT, M_LAT_ATOMIC, M_STORE_SECTOR,
    M_LAT_PRODUCT, M_DRAM_TURN, M_STORE_AHEAD, M_PROGRAM, M_WAY_SECTOR,
) = (8 * n for n in range(len(MACHINE)))  # fmt: skip
