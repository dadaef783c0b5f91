"""The thread pool's machine code, as LLVM IR text: claiming, running and waiting, with no Python in the loop.

Comes in: the architecture (for its pause instruction and its futex number). Goes out: a module with `tp_run`,
`tp_resume`, `tp_cancel`, `tp_stop` (called from Python) and `tp_worker` (a thread's main function).

How a job is handed out. `ticket` holds `generation << 32 | granules left`. A thread claims by
compare-and-swap, so a late thread can never claim from the next job with the sizes of the last one, and a
ticket with nothing left needs no other field to be understood. Only after a claim succeeded are the job's
fields read; they cannot change until the claimed granules are counted in `done`. A granule is one program, or
more if 32 bits cannot count them. A claim takes a share of what is left, so that few claims are made and the
last ones are small, and no more than a few milliseconds of work, so that a job can be given up soon.
"""

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
    "slots": 256,  # one slot of SLOT_BYTES a thread, the launching thread's first
}
SLOT_BYTES = 64
SLOT = {"pool": 0, "scratch": 8, "scratch_bytes": 16}

STATUS_ERROR = 1  # a kernel recorded an error
STATUS_MEMORY = 2  # scratch could not be allocated
STATUS_MORE = 4  # not finished: let Python look at its signals, then resume

# A claim is 1 / (SHARE * threads) of what is left.
_SHARE = 4
# How long idle threads spin before they sleep: longer than Python needs from one launch to the next.
_SPINS = 3000
# How long the launching thread stays away from Python (and so from Ctrl-C).
_SLICE_NS = 50_000_000
# A thread's next claim may be twice as large while its claims take less than this.
_CLAIM_NS = 2_000_000

_ARCH = {
    "x86_64": {
        "futex": 202,
        "pause": "call void @llvm.x86.sse2.pause()",
        "declare": "declare void @llvm.x86.sse2.pause()",
    },
    "aarch64": {
        "futex": 98,
        "pause": "call void @llvm.aarch64.hint(i32 1)",
        "declare": "declare void @llvm.aarch64.hint(i32)",
    },
}
FUTEX_WAIT, FUTEX_WAKE = 128, 129  # the private variants: one process

_MODULE = """
{declare}
declare i64 @syscall(i64, ...)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @clock_gettime(i32, ptr)

define private i64 @now() {{
  %ts = alloca {{ i64, i64 }}
  call i32 @clock_gettime(i32 1, ptr %ts)
  %s = load i64, ptr %ts
  %np = getelementptr i8, ptr %ts, i64 8
  %n = load i64, ptr %np
  %sn = mul i64 %s, 1000000000
  %t = add i64 %sn, %n
  ret i64 %t
}}

; Scratch of at least the given size for the thread that owns the slot, or null.
define private ptr @scratch(ptr %slot, i64 %bytes) {{
  %pp = getelementptr i8, ptr %slot, i64 {slot_scratch}
  %sp = getelementptr i8, ptr %slot, i64 {slot_scratch_bytes}
  %p = load ptr, ptr %pp
  %have = load i64, ptr %sp
  %enough = icmp uge i64 %have, %bytes
  br i1 %enough, label %keep, label %grow
keep:
  ret ptr %p
grow:
  call void @free(ptr %p)
  store ptr null, ptr %pp
  store i64 0, ptr %sp
  %up = add i64 %bytes, 4095
  %size = and i64 %up, -4096
  %rc = call i32 @posix_memalign(ptr %pp, i64 4096, i64 %size)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %none, label %ok
none:
  store ptr null, ptr %pp
  ret ptr null
ok:
  store i64 %size, ptr %sp
  %q = load ptr, ptr %pp
  ret ptr %q
}}

; Counts granules as finished; the last one wakes a launching thread that sleeps.
define private void @finish(ptr %pool, i32 %granules) {{
  %dp = getelementptr i8, ptr %pool, i64 {done}
  %cp = getelementptr i8, ptr %pool, i64 {count}
  %wp = getelementptr i8, ptr %pool, i64 {waiting}
  %count = load i32, ptr %cp
  %old = atomicrmw add ptr %dp, i32 %granules seq_cst
  %new = add i32 %old, %granules
  %all = icmp eq i32 %new, %count
  br i1 %all, label %last, label %out
last:
  %w = load atomic i32, ptr %wp seq_cst, align 4
  %asleep = icmp ne i32 %w, 0
  br i1 %asleep, label %wake, label %out
wake:
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %dp, i64 {futex_wake}, i64 1, ptr null)
  br label %out
out:
  ret void
}}

; Gives up what nobody has claimed of the current job.
define private void @abandon(ptr %pool) {{
entry:
  br label %retry
retry:
  %t = load atomic i64, ptr %pool acquire, align 8
  %left = trunc i64 %t to i32
  %none = icmp eq i32 %left, 0
  br i1 %none, label %out, label %try
try:
  %gen = and i64 %t, -4294967296
  %x = cmpxchg ptr %pool, i64 %t, i64 %gen seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %x, 1
  br i1 %won, label %drop, label %retry
drop:
  call void @finish(ptr %pool, i32 %left)
  br label %out
out:
  ret void
}}

; Claims and runs until nothing is left. Returns true when the deadline has passed before that.
define private i1 @work(ptr %pool, ptr %slot, i64 %deadline) {{
entry:
  %kp = getelementptr i8, ptr %pool, i64 {kernel}
  %lp = getelementptr i8, ptr %pool, i64 {launch}
  %np = getelementptr i8, ptr %pool, i64 {programs}
  %gp = getelementptr i8, ptr %pool, i64 {granule}
  %bp = getelementptr i8, ptr %pool, i64 {scratch}
  %cp = getelementptr i8, ptr %pool, i64 {count}
  %sp = getelementptr i8, ptr %pool, i64 {status}
  %tp = getelementptr i8, ptr %pool, i64 {threads}
  %threads = load i32, ptr %tp
  %shares = mul i32 %threads, {share}
  %begin = call i64 @now()
  br label %next
next:
  %limit = phi i32 [ 1, %entry ], [ %limit, %claim ], [ %limit2, %paced ]
  %then = phi i64 [ %begin, %entry ], [ %then, %claim ], [ %n, %paced ]
  %t = load atomic i64, ptr %pool acquire, align 8
  %left = trunc i64 %t to i32
  %none = icmp eq i32 %left, 0
  br i1 %none, label %idle, label %claim
idle:
  ret i1 false
claim:
  %part = udiv i32 %left, %shares
  %zero = icmp eq i32 %part, 0
  %fair = select i1 %zero, i32 1, i32 %part
  %high = icmp ugt i32 %fair, %limit
  %take = select i1 %high, i32 %limit, i32 %fair
  %take64 = zext i32 %take to i64
  %rest = sub i64 %t, %take64
  %x = cmpxchg ptr %pool, i64 %t, i64 %rest seq_cst seq_cst
  %won = extractvalue {{ i64, i1 }} %x, 1
  br i1 %won, label %mine, label %next
mine:
  %kernel = load ptr, ptr %kp
  %launch = load ptr, ptr %lp
  %programs = load i64, ptr %np
  %granule = load i64, ptr %gp
  %bytes = load i64, ptr %bp
  %count = load i32, ptr %cp
  %index = sub i32 %count, %left
  %index64 = zext i32 %index to i64
  %first = mul i64 %index64, %granule
  %span = mul i64 %take64, %granule
  %end = add i64 %first, %span
  %over = icmp ugt i64 %end, %programs
  %last = select i1 %over, i64 %programs, i64 %end
  %mem = call ptr @scratch(ptr %slot, i64 %bytes)
  %nomem = icmp eq ptr %mem, null
  %needmem = icmp ne i64 %bytes, 0
  %fail = and i1 %nomem, %needmem
  br i1 %fail, label %oom, label %call
oom:
  atomicrmw or ptr %sp, i32 {status_memory} seq_cst
  br label %stop
call:
  %rc = call i32 %kernel(ptr %launch, ptr %mem, i64 %first, i64 %last)
  %bad = icmp ne i32 %rc, 0
  br i1 %bad, label %error, label %good
error:
  atomicrmw or ptr %sp, i32 {status_error} seq_cst
  br label %stop
stop:
  call void @abandon(ptr %pool)
  br label %good
good:
  call void @finish(ptr %pool, i32 %take)
  %n = call i64 @now()
  %spent = sub i64 %n, %then
  %quick = icmp ult i64 %spent, {claim_ns}
  %double = shl i32 %take, 1
  %half = lshr i32 %take, 1
  %half1 = or i32 %half, 1
  %limit2 = select i1 %quick, i32 %double, i32 %half1
  %late = icmp ugt i64 %n, %deadline
  br i1 %late, label %away, label %paced
paced:
  br label %next
away:
  ret i1 true
}}

; A worker: look for work, spin, sleep. The epoch is read before looking, so no job is slept through.
define ptr @tp_worker(ptr %slot) {{
entry:
  %pool = load ptr, ptr %slot
  %ep = getelementptr i8, ptr %pool, i64 {epoch}
  %zp = getelementptr i8, ptr %pool, i64 {sleepers}
  %xp = getelementptr i8, ptr %pool, i64 {stop}
  br label %look
look:
  %e = load atomic i32, ptr %ep seq_cst, align 4
  %stop = load atomic i32, ptr %xp seq_cst, align 4
  %end = icmp ne i32 %stop, 0
  br i1 %end, label %leave, label %job
job:
  call i1 @work(ptr %pool, ptr %slot, i64 -1)
  br label %spin
spin:
  %i = phi i32 [ 0, %job ], [ %i1, %again ]
  %now = load atomic i32, ptr %ep acquire, align 4
  %new = icmp ne i32 %now, %e
  br i1 %new, label %look, label %again
again:
  {pause}
  %i1 = add i32 %i, 1
  %tired = icmp ugt i32 %i1, {spins}
  br i1 %tired, label %sleep, label %spin
sleep:
  atomicrmw add ptr %zp, i32 1 seq_cst
  %e64 = zext i32 %e to i64
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %ep, i64 {futex_wait}, i64 %e64, ptr null)
  atomicrmw sub ptr %zp, i32 1 seq_cst
  br label %look
leave:
  %pp = getelementptr i8, ptr %slot, i64 {slot_scratch}
  %mem = load ptr, ptr %pp
  call void @free(ptr %mem)
  store ptr null, ptr %pp
  ret ptr null
}}

; Takes part in the current job and waits for its end, or for the end of this slice of time.
define i32 @tp_resume(ptr %pool) {{
entry:
  %dp = getelementptr i8, ptr %pool, i64 {done}
  %wp = getelementptr i8, ptr %pool, i64 {waiting}
  %cp = getelementptr i8, ptr %pool, i64 {count}
  %sp = getelementptr i8, ptr %pool, i64 {status}
  %slot = getelementptr i8, ptr %pool, i64 {slots}
  %timeout = alloca {{ i64, i64 }}
  %count = load i32, ptr %cp
  %start = call i64 @now()
  %deadline = add i64 %start, {slice_ns}
  %late = call i1 @work(ptr %pool, ptr %slot, i64 %deadline)
  br i1 %late, label %more, label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i1, %again ]
  %d = load atomic i32, ptr %dp acquire, align 4
  %all = icmp eq i32 %d, %count
  br i1 %all, label %finished, label %again
again:
  {pause}
  %i1 = add i32 %i, 1
  %tired = icmp ugt i32 %i1, {spins}
  br i1 %tired, label %sleep, label %spin
sleep:
  store i64 0, ptr %timeout
  %ns = getelementptr i8, ptr %timeout, i64 8
  store i64 {slice_ns}, ptr %ns
  store atomic i32 1, ptr %wp seq_cst, align 4
  %d2 = load atomic i32, ptr %dp seq_cst, align 4
  %all2 = icmp eq i32 %d2, %count
  br i1 %all2, label %woke, label %futex
futex:
  %d64 = zext i32 %d2 to i64
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %dp, i64 {futex_wait}, i64 %d64, ptr %timeout)
  br label %woke
woke:
  store atomic i32 0, ptr %wp seq_cst, align 4
  %d3 = load atomic i32, ptr %dp seq_cst, align 4
  %all3 = icmp eq i32 %d3, %count
  br i1 %all3, label %finished, label %more
more:
  %d4 = load atomic i32, ptr %dp seq_cst, align 4
  %all4 = icmp eq i32 %d4, %count
  br i1 %all4, label %finished, label %unfinished
unfinished:
  ret i32 {status_more}
finished:
  %status = load atomic i32, ptr %sp seq_cst, align 4
  ret i32 %status
}}

; Starts a job of programs > 0. One program, or one thread and few programs, needs no other thread to know.
define i32 @tp_run(ptr %pool, ptr %kernel, ptr %launch, i64 %programs, i64 %bytes) {{
entry:
  %kp = getelementptr i8, ptr %pool, i64 {kernel}
  %lp = getelementptr i8, ptr %pool, i64 {launch}
  %np = getelementptr i8, ptr %pool, i64 {programs}
  %gp = getelementptr i8, ptr %pool, i64 {granule}
  %bp = getelementptr i8, ptr %pool, i64 {scratch}
  %cp = getelementptr i8, ptr %pool, i64 {count}
  %sp = getelementptr i8, ptr %pool, i64 {status}
  %dp = getelementptr i8, ptr %pool, i64 {done}
  %ep = getelementptr i8, ptr %pool, i64 {epoch}
  %zp = getelementptr i8, ptr %pool, i64 {sleepers}
  %slot = getelementptr i8, ptr %pool, i64 {slots}
  %single = icmp eq i64 %programs, 1
  br i1 %single, label %alone, label %share
alone:
  %mem = call ptr @scratch(ptr %slot, i64 %bytes)
  %nomem = icmp eq ptr %mem, null
  %needmem = icmp ne i64 %bytes, 0
  %fail = and i1 %nomem, %needmem
  br i1 %fail, label %oom, label %call
oom:
  ret i32 {status_memory}
call:
  %rc = call i32 %kernel(ptr %launch, ptr %mem, i64 0, i64 1)
  %bad = icmp ne i32 %rc, 0
  %alone_status = select i1 %bad, i32 {status_error}, i32 0
  ret i32 %alone_status
share:
  %high = lshr i64 %programs, 31
  %granule = add i64 %high, 1
  %up = add i64 %programs, %high
  %count64 = udiv i64 %up, %granule
  %count = trunc i64 %count64 to i32
  store ptr %kernel, ptr %kp
  store ptr %launch, ptr %lp
  store i64 %programs, ptr %np
  store i64 %granule, ptr %gp
  store i64 %bytes, ptr %bp
  store i32 %count, ptr %cp
  store i32 0, ptr %sp
  store atomic i32 0, ptr %dp seq_cst, align 4
  %t = load atomic i64, ptr %pool seq_cst, align 8
  %old = and i64 %t, -4294967296
  %gen = add i64 %old, 4294967296
  %ticket = or i64 %gen, %count64
  store atomic i64 %ticket, ptr %pool seq_cst, align 8
  atomicrmw add ptr %ep, i32 1 seq_cst
  %z = load atomic i32, ptr %zp seq_cst, align 4
  %sleeping = icmp ne i32 %z, 0
  br i1 %sleeping, label %wake, label %go
wake:
  %others = sub i32 %count, 1
  %few = icmp ult i32 %others, %z
  %w = select i1 %few, i32 %others, i32 %z
  %w64 = zext i32 %w to i64
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %ep, i64 {futex_wake}, i64 %w64, ptr null)
  br label %go
go:
  %status = call i32 @tp_resume(ptr %pool)
  ret i32 %status
}}

; Gives up a job after an exception in Python. The caller resumes until it is over.
define void @tp_cancel(ptr %pool) {{
  call void @abandon(ptr %pool)
  ret void
}}

; Lets the workers end, and frees the launching thread's scratch.
define void @tp_stop(ptr %pool) {{
  %pp = getelementptr i8, ptr %pool, i64 {slot0_scratch}
  %sp = getelementptr i8, ptr %pool, i64 {slot0_scratch_bytes}
  %mem = load ptr, ptr %pp
  call void @free(ptr %mem)
  store ptr null, ptr %pp
  store i64 0, ptr %sp
  %xp = getelementptr i8, ptr %pool, i64 {stop}
  %ep = getelementptr i8, ptr %pool, i64 {epoch}
  store atomic i32 1, ptr %xp seq_cst, align 4
  atomicrmw add ptr %ep, i32 1 seq_cst
  call i64 (i64, ...) @syscall(i64 {futex}, ptr %ep, i64 {futex_wake}, i64 2147483647, ptr null)
  ret void
}}
"""

EXPORTS = ("tp_run", "tp_resume", "tp_cancel", "tp_stop", "tp_worker")


def module_text(arch: str) -> str:
    """The pool's module for an architecture (`x86_64` or `aarch64`)."""
    return _MODULE.format(
        **OFFSETS,
        **_ARCH[arch],
        slot_scratch=SLOT["scratch"],
        slot0_scratch=OFFSETS["slots"] + SLOT["scratch"],
        slot0_scratch_bytes=OFFSETS["slots"] + SLOT["scratch_bytes"],
        slot_scratch_bytes=SLOT["scratch_bytes"],
        status_error=STATUS_ERROR,
        status_memory=STATUS_MEMORY,
        status_more=STATUS_MORE,
        share=_SHARE,
        spins=_SPINS,
        slice_ns=_SLICE_NS,
        claim_ns=_CLAIM_NS,
        futex_wait=FUTEX_WAIT,
        futex_wake=FUTEX_WAKE,
    )
