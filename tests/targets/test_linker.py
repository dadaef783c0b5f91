"""Object code is linked into a process whose memory is full of large arrays, too."""

import subprocess
import sys

import pytest

from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.linker import load_object

# A function and constants that it reads, in sections of their own.
CODE = """
@table = private constant [64 x i64] [{values}]
define i64 @entry(i64 %at) {{
  %place = getelementptr [64 x i64], ptr @table, i64 0, i64 %at
  %value = load i64, ptr %place
  ret i64 %value
}}
""".format(values=", ".join(f"i64 {n * n}" for n in range(64)))

# Addresses are given from high to low: all gaps above one large array are filled, and the array gets gaps of a page
# each, gigabytes apart. Nothing of it is written, so that it is addresses alone.
APART = """
import ctypes, mmap, sys
from tileprobe.targets.cpu.loader import compile_ir
from tileprobe.targets.linker import load_object

data = compile_ir(sys.stdin.read())
libc, GB = ctypes.CDLL(None), 1 << 30
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # which reserves nothing
array = libc.mmap(None, 40 * GB, 0, private, -1, 0)
for size in (GB, GB >> 4, GB >> 8, GB >> 12, GB >> 16, 4096):
    while (place := libc.mmap(None, size, 0, private, -1, 0)) > array:
        pass
    libc.munmap(place, size)
for gap in range(1, 13):
    libc.munmap(array + 3 * GB * gap, 4096)
library = load_object(data, ["entry"])
entry = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.address("entry"))
print([entry(n) for n in (0, 3, 63)])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="gaps are made with Linux's calls")
def test_sections_of_an_object_stay_together_between_large_arrays():
    """Code does not reach constants that are more than 2 GB away, and LLVM aborts the process."""
    words = [sys.executable, "-c", APART]
    done = subprocess.run(words, input=CODE, capture_output=True, text=True, timeout=120)
    assert done.stdout == "[0, 9, 3969]\n", done.stderr


def test_what_is_nowhere_is_an_error():
    code = "declare i64 @nowhere()\ndefine i64 @entry() {\n %r = call i64 @nowhere()\n ret i64 %r\n}"
    with pytest.raises(RuntimeError, match="entry"):
        load_object(compile_ir(code), ["entry"])
