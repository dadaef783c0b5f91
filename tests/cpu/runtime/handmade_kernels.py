"""Kernels written as LLVM IR to the kernel ABI, for tests of the pool and the launcher below Triton."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.linker import load_object

# Adds 1 to element i of an i32 array for program i; the array is the first argument.
COUNT = """
  %p = getelementptr i32, ptr %a, i64 %i
  atomicrmw add ptr %p, i32 1 seq_cst
"""
# As COUNT, after a while: about a millisecond a program.
SLOW = """
  br label %wait
wait:
  %w = phi i64 [ 0, %loop ], [ %w1, %wait ]
  call void asm sideeffect "", "~{memory}"()
  %w1 = add i64 %w, 1
  %go = icmp ult i64 %w1, 3000000
  br i1 %go, label %wait, label %count
count:
  %p = getelementptr i32, ptr %a, i64 %i
  atomicrmw add ptr %p, i32 1 seq_cst
"""
# As COUNT, after 20 ms off the core: what a program sees when the system lets another one run.
AWAY = """
  %slept = call i32 @usleep(i32 20000)
  %p = getelementptr i32, ptr %a, i64 %i
  atomicrmw add ptr %p, i32 1 seq_cst
"""
# Program 7 fails at site 0.
FAIL = """
  %p = getelementptr i32, ptr %a, i64 %i
  atomicrmw add ptr %p, i32 1 seq_cst
  %bad = icmp eq i64 %i, 7
  br i1 %bad, label %error, label %fine
error:
  %ep = getelementptr i64, ptr %launch, i64 3
  %e = load ptr, ptr %ep
  store i32 1, ptr %e
  %pp = getelementptr i64, ptr %e, i64 1
  store i64 %i, ptr %pp
  ret i32 1
fine:
"""
# Fills the whole scratch of the second argument's size with the program's number and reads it back.
SCRATCH = """
  %np = getelementptr i64, ptr %launch, i64 9
  %n = load i64, ptr %np
  %b = trunc i64 %i to i8
  call void @llvm.memset.p0.i64(ptr align 64 %scratch, i8 %b, i64 %n, i1 true)
  %lastbyte = sub i64 %n, 1
  %q = getelementptr i8, ptr %scratch, i64 %lastbyte
  %v = load volatile i8, ptr %q
  %same = icmp eq i8 %v, %b
  %one = zext i1 %same to i32
  %p = getelementptr i32, ptr %a, i64 %i
  atomicrmw add ptr %p, i32 %one seq_cst
"""

_TEMPLATE = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i32 @usleep(i32)
define i32 @kernel(ptr %launch, ptr %scratch, i64 %first, i64 %last) {{
entry:
  %ap = getelementptr i64, ptr %launch, i64 8
  %a = load ptr, ptr %ap
  br label %loop
loop:
  %i = phi i64 [ %first, %entry ], [ %i1, %next ]
{body}
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %last
  br i1 %more, label %loop, label %out
out:
  ret i32 0
}}
"""


@cache
def kernel(body: str) -> int:
    """The address of a kernel whose programs run this body."""
    library = load_object(compile_ir(_TEMPLATE.format(body=body)), ["kernel"])
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))
    return library.address("kernel")


def launch_block(counts: np.ndarray, *more: int) -> np.ndarray:
    errors = np.zeros(16, np.int64)
    block = np.array([counts.size, 1, 1, errors.ctypes.data, 0, 0, 0, 0, counts.ctypes.data, *more], np.int64)
    _keep.append(errors)
    return block


_keep: list[np.ndarray] = []
