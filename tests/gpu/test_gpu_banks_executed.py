"""Bank conflicts that follow from layouts, against those of the addresses that the machine code really has: a simulated
GPU executes it, its accesses to shared memory are written down and counted by hand."""

import contextlib
import ctypes
import os
import sys

import numpy as np
import pytest
from test_gpu_banks import BY_COLUMN, BY_ROW, accesses, turned
from triton.experimental.gluon import language as gl

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "simgpu"))
from benchmarks._gpu_kernels import add, matmul
from python_engine import families, memory

import tileprobe
from tileprobe.targets.gpu.bank_conflicts import bank_conflicts
from tileprobe.targets.simgpu.engine import layout, numbers, table

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, *([ctypes.c_int64] * 7))

WARPS = 4
PLAIN = {"threads": 1, "check": False}  # checks are not run by Python


@contextlib.contextmanager
def executed(monkeypatch):
    """What is executed inside as (sort, bytes of a lane, addresses of the lanes that take part). The engine's families
    for shared memory are run by Python there."""
    found, wrong = [], []
    functions = families.load({})
    for module, name in (("memory", "shared_access"), ("copies", "_copy"), ("copies", "_matrices")):
        held = sys.modules[f"python_families.{module}"]
        setattr(held, name, _noted(getattr(held, name), name, held, found))
    made, kept = table.table().copy(), {}
    for name, function in functions.items():
        if function.__module__.rpartition(".")[2] in ("memory", "copies"):
            kept[name] = CALLBACK(_guarded(function, wrong))
            made[numbers.NUMBERS[name]] = ctypes.cast(kept[name], ctypes.c_void_p).value
    with monkeypatch.context() as patch:
        patch.setattr(memory, "check", lambda *_: None)
        patch.setattr(table, "table", lambda: made)
        yield found
    assert not wrong, wrong


def _guarded(function, wrong):
    def call(*args):
        try:
            return int(function(*args))
        except BaseException as error:
            wrong.append(error)
            return layout.TRAP

    return call


def _noted(original, name, module, found):
    def access(uop, warp, cta, constants, mask, last):
        result = original(uop, warp, cta, constants, mask, last)
        scratch = ctypes.c_int64.from_address(cta + layout.CTA_SCRATCH).value
        lanes = np.array((ctypes.c_int64 * 32).from_address(scratch))
        size = module.field(uop, layout.I2) & module.BYTES
        if name == "_matrices":  # so many matrices of eight rows
            found.append(("matrix", 16, lanes[: 8 * size]))
        else:
            sort = "copy" if name == "_copy" else "load" if last else "store"
            found.append((sort, size, lanes[[mask >> n & 1 == 1 for n in range(32)]]))
        return result

    return access


def wavefronts(size, addresses):
    """32 banks of four bytes; as many lanes are served together as there are bytes in all banks."""
    together, total = min(32, 128 // max(4, size)), 0
    for first in range(0, len(addresses), together):
        words = {
            int(a) // 4 + n for a in addresses[first : first + together] for n in range(max(1, size // 4))
        }
        banks = [word % 32 for word in words]
        total += max(map(banks.count, banks))
    return total


def total(found, sort):
    return sum(wavefronts(size, addresses) for kind, size, addresses in found if kind == sort)


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """The engine, before anything is timed out."""
    with tileprobe.use("sim:a100", **PLAIN):
        add[(1,)](*3 * [tileprobe.array(np.zeros(64, np.float32))], 64, BLOCK=64)


@pytest.mark.parametrize("phases", [1, 4, 32])
def test_layouts_say_what_addresses_do(phases, monkeypatch):
    """Stored row by row, loaded column by column: 32 times as many wavefronts, 8 times as many, as many."""
    shared = gl.SwizzledSharedLayout(1, 1, phases, [1, 0])
    said = {one["op"]: one["wavefronts"] for one in accesses(shared).values()}
    data = np.arange(1024, dtype=np.float32).reshape(32, 32)
    with tileprobe.use("sim:a100", **PLAIN), executed(monkeypatch) as found:
        x, out = tileprobe.array(data), tileprobe.array(np.zeros_like(data))
        turned[(1,)](x, out, SHARED=shared, IN=BY_ROW, OUT=BY_COLUMN, num_warps=WARPS)
        assert np.array_equal(out.numpy(), data)
    assert total(found, "load") == WARPS * said["ttg.local_load"]
    assert total(found, "store") == WARPS * said["ttg.local_store"]


def test_operands_of_a_product(monkeypatch):
    """LDSM, and copies into shared memory: no conflicts by layout, none by address."""
    k, tile = 96, {"BM": 64, "BN": 32, "BK": 32}
    with tileprobe.use("sim:a100", **PLAIN), executed(monkeypatch) as found:
        a, b = (tileprobe.array(np.ones(shape, np.float16)) for shape in ((64, k), (k, 32)))
        out = tileprobe.array(np.zeros((64, 32), np.float16))
        kernel = matmul[(1, 1)](a, b, out, 64, 32, k, **tile, num_warps=WARPS)
        assert (out.numpy() == k).all()
    said = bank_conflicts(kernel, matrices=True)
    assert {one["instruction"] for one in said if one["op"] == "ttg.local_load"} == {"matrix"}
    assert {one["op"] for one in said} >= {"ttg.local_load", "ttg.async_copy_global_to_local"}
    assert all(one["extra"] == 0 for one in said)
    assert {sort for sort, *_ in found} >= {"matrix", "copy"}
    for sort, size, addresses in found:
        if sort in ("matrix", "copy"):
            assert wavefronts(size, addresses) == -(-size * len(addresses) // 128)
