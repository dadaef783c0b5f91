"""Where things lie in the blocks of memory that the engine works on. Numbers are byte offsets unless they say other.

A micro-op is sixteen 32-bit fields. A register row is 32 lanes of 32 bits, side by side. Operands are rows: a field
that is not negative counts from the warp's block, a negative one (negated) from the rows of constants, which all
warps share.
"""

from __future__ import annotations

LANES = 32
ROW = 4 * LANES  # bytes

# -- a micro-op: numbers of 32-bit fields --------------------------------------------------------------------------
UOP = 64  # bytes
OP, GUARD, D, A, B, C, PD, PS, MODS, I0, I1, I2, E, CONTROL, UNIT, SPARE = range(16)
NEGATED = 32  # a predicate operand: its slot, and this if it is negated
UNIFORM = 64  # a guard of the uniform datapath: all lanes or none
SECOND = 8  # bits from the first to the second of two predicate operands in a field

# Modifiers: a bit each for negation and absolute value of A, B, C.
NEGATE, ABSOLUTE = 0, 3
# Halves of A, B, C: two bits each: the upper number is read from the lower half, the lower from the upper half
HALVES = 8
NEGATE_HALVES = 17  # two bits each: the lower number is negated, the upper one
INVERT = 14  # a bit each: all bits of A, B, C are inverted

# -- predicates: slots of 32 bits, one a lane ----------------------------------------------------------------------
PT, UP0, UPT, NOWHERE = 7, 8, 15, 16  # P0 to P6, always true, UP0 to UP6, always true, where writes are lost

# -- a warp --------------------------------------------------------------------------------------------------------
W_PRED = 0
W_PC, W_ACTIVE, W_STATUS, W_EXITED, W_NUMBER = 72, 76, 80, 84, 88
W_CLUSTER_PHASE = 92  # how often the cluster's barrier had opened when the warp arrived at it
W_CONVERGE = 96  # 16 masks, of B0 to B15
W_LANE_PC = 160  # 32 of them, for lanes that are not active
W_LANE_WAIT = 288  # 32: 0 can run, 1 + n waits at BSYNC of Bn, else one of these
WAIT_WARPSYNC, WAIT_NOTHING = 32, 0
W_STEPS, W_CYCLE, W_CTA, W_LOCAL, W_LOCAL_BYTES = 416, 424, 432, 440, 448
W_WAIT_KIND, W_WAIT_AT, W_WAIT_VALUE = (
    456,
    460,
    464,
)  # what it waits for: a barrier's number or address, a phase
W_AGENT = 468  # its number in the checks of races: of all warps of its cluster
W_COPIES, W_COPIES_ROOM, W_COPIES_DONE, W_COPIES_MADE, W_GROUP = (
    472,
    480,
    484,
    488,
    492,
)  # asynchronous copies
W_LANE_MASK = 512  # 32: the lanes that a lane at WARPSYNC waits for
W_SPECIAL = 640  # rows of special registers
SPECIAL = (
    "SR_TID.X", "SR_TID.Y", "SR_TID.Z", "SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z", "SR_LANEID", "SR_CgaCtaId",
    "SR_CLUSTER_CTARANK", "SR_VIRTID", "SR_SWINHI", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK",
    "SR_NTID", "SR_CTA_X_IN_CGA",
)  # fmt: skip
W_TRASH = W_SPECIAL + len(SPECIAL) * ROW  # where writes to RZ go: as many rows as the widest result
TRASH_ROWS = 4
W_UNIFORM = W_TRASH + TRASH_ROWS * ROW
UNIFORM_ROWS = 64
W_REGISTERS = W_UNIFORM + UNIFORM_ROWS * ROW

# What a warp is doing
RUNNING, AT_BARRIER, EXITED, AT_MBARRIER, AT_CLUSTER = range(5)

# -- constants -----------------------------------------------------------------------------------------------------
ZERO_ROWS = 128  # the widest operand: the accumulator of a warp group

# -- a CTA: 64-bit fields ------------------------------------------------------------------------------------------
(
    CTA_UOPS, CTA_UOP_COUNT, CTA_CONSTANTS, CTA_WARPS, CTA_WARP_BYTES, CTA_WARP_COUNT, CTA_SHARED,
    CTA_SHARED_BASE, CTA_SHARED_BYTES, CTA_X, CTA_Y, CTA_Z, CTA_RANK, CTA_CLUSTER, CTA_RANGES, CTA_RANGE_COUNT,
    CTA_LAST_RANGE, CTA_BANKS, CTA_NEXT, CTA_LIVE, CTA_ERROR, CTA_ERROR_PC, CTA_ERROR_WARP, CTA_ERROR_LANE,
    CTA_ERROR_ADDRESS, CTA_ERROR_MORE, CTA_SCRATCH, CTA_STEPS, CTA_CYCLE, CTA_PROGRESS, CTA_SHADOW, CTA_CHECKS,
    CTA_ASYNC, CTA_ASYNC_COUNT, CTA_NUMERICS, CTA_ERROR_OTHER, CTA_CLUSTER_SIZE, CTA_CODE_BASE, CTA_EPOCH,
    CTA_TABLE, CTA_TEMPLATE, CTA_RACES, CTA_ARRIVALS,
) = (8 * n for n in range(43))  # fmt: skip
# The shadow of shared memory, a byte for each byte: nobody has written it, it holds a value, a copy to it is under way,
# it is a barrier of sm_80, which ordinary loads look at
UNWRITTEN, WRITTEN, UNDER_WAY, BARRIER_WORD = range(4)
ASYNC_ROOM = 256  # bulk copies under way in a program, at most
ASYNC = (
    64  # bytes of one: 32-bit fields: shared address, mbarrier, coordinates; then the descriptor's address
)
ASYNC_SHARED, ASYNC_BARRIER, ASYNC_AT, ASYNC_RANK, ASYNC_PC, ASYNC_DESCRIPTOR = 0, 4, 8, 28, 32, 40
ASYNC_BY = 56  # when it was issued, and by which warp: cycle * 64 + warp
CTA_BARRIERS = 512  # 16 named ones: threads expected, threads there, warps that wait (64 bits)
BARRIER = 24
CTA_MBARRIERS = CTA_BARRIERS + 16 * BARRIER  # left free
CTA_BYTES = 1024
CTA_SCRATCH_BYTES = 64 << 10

# -- a cluster: 64-bit fields, then the address of each program ------------------------------------------------------
CLUSTER_ARRIVED, CLUSTER_OPENED, CLUSTER_SIZE, CLUSTER_MEMBERS = 0, 8, 16, 24

# A range of memory that the kernel may touch: first byte, last byte + 1
RANGE = 16

# -- addresses that are no memory of this machine -------------------------------------------------------------------
LOCAL_WINDOW, SHARED_WINDOW = 1 << 56, 1 << 57  # generic addresses of local and shared memory
CODE_WINDOW = 1 << 52  # of instructions
FUNCTION_WINDOW = 1 << 53  # of functions that the driver brings: 16 apart

# -- how a run ends ------------------------------------------------------------------------------------------------
FINISHED, QUANTUM, DEADLOCK, FAULT, SYSTEM_CALL = range(5)
# Faults, in CTA_ERROR
(
    OK, OUT_OF_BOUNDS, MISALIGNED, SHARED_BOUNDS, LOCAL_BOUNDS, BAD_PC, BAD_BARRIER, TRAP, UNINITIALISED, TOO_EARLY,
    BAD_DESCRIPTOR, CONSTANT_BOUNDS, NOT_CONVERGED, RACE, BAD_MBARRIER,
) = range(15)  # fmt: skip

# -- a worker: 64-bit fields. It runs the programs NEXT, NEXT + STRIDE, ... below END, one after another -------------
(
    WORKER_CLUSTER, WORKER_NEXT, WORKER_END, WORKER_STRIDE, WORKER_X, WORKER_Y, WORKER_BUSY, WORKER_SPARE,
    WORKER_UNIFORM_BYTES, WORKER_POISON, WORKER_STEPS, WORKER_CURRENT,
) = (8 * n for n in range(12))  # fmt: skip
WORKER_BYTES = 128
POISON = 0xFF  # what shared memory is full of before a program: NaN in every floating-point format
