"""Where things lie in the memory that the threads of a pool share: known to its machine code and to Python."""

from __future__ import annotations

# Byte offsets in the pool's shared block. What different threads write sits on different cache lines.
OFFSETS = {
    "ticket": 0,  # i64 generation << 32 | granules left
    "done": 64,  # i32 granules finished or given up
    "waiting": 68,  # i32 the launching thread sleeps on `done`
    "epoch": 128,  # i32 counts jobs; idle workers sleep on it
    "sleepers": 132,  # i32 workers asleep (or about to be)
    "stop": 136,  # i32 workers should end
    "kernel": 192,  # the job: function, launch block, programs, programs a granule, bytes of scratch
    "launch": 200,
    "programs": 208,
    "granule": 216,
    "scratch": 224,
    "count": 232,  # i32 granules
    "status": 236,  # i32 STATUS_* bits, or-ed by whoever fails
    "threads": 240,  # i32 workers and the launching thread
    "watched": 244,  # i32 whether what the system takes from the programs is measured
    "taken": 248,  # i64 nanoseconds for which threads that ran programs were not on a core
    "began": 256,  # i64 when a watched job began and when its last program had ended, CLOCK_MONOTONIC
    "ended": 264,
    "spent": 272,  # i64 nanoseconds that threads spent on programs, with what was taken
    "slots": 320,  # one slot of SLOT_BYTES a thread, the launching thread's first
}
SLOT_BYTES = 64
SLOT = {"pool": 0, "scratch": 8, "scratch_bytes": 16}
