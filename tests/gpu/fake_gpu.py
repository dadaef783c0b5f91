"""A GPU that takes launches: Triton's own drivers and ours, linked against a driver library that runs nothing.

In comes a machine ("cuda:90", "hip:gfx942"); while the context is on, Triton launches there. Out go the launches with
their parameters as the GPU would have got them. What probed kernels would write is written by running their scalar
part (`gpu_machine`) on the memory that the launch names.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import triton
from gpu_machine import Gpu
from triton._C.libtriton import ir
from triton.compiler.compiler import make_backend

from tileprobe.ir.bridge import parse_triton, to_xdsl
from tileprobe.targets.catalog import find
from tileprobe.targets.gpu import kernel as gpu_kernel
from tileprobe.targets.gpu.structure import TtgirStructure

HERE = Path(__file__).parent
BACKENDS = Path(triton.__file__).parent / "backends"
NAMES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so"}
HEADERS = {"cuda": ("NVIDIA", "nvidia"), "hip": ("AMD", "amd")}
TAKE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_uint),
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
)
RUN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)
LOADED = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


@cache
def library(backend: str) -> tuple[ctypes.CDLL, str]:
    """The fake driver, built once a process, and where it is."""
    if shutil.which("gcc") is None:
        pytest.skip("Triton's drivers and the library behind them are compiled with gcc")
    source = HERE / "driver" / "fake_gpu.c"
    name = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"tileprobe-fake-{os.getuid()}-{name}-{backend}"
    folder.mkdir(exist_ok=True)
    path = folder / NAMES[backend]
    if not path.exists():
        macro, where = HEADERS[backend]
        made = folder / f"{os.getpid()}.so"
        command = ["gcc", "-shared", "-fPIC", "-O1", f"-D{macro}", f"-I{BACKENDS / where / 'include'}"]
        command += [f"-Wl,-soname,{NAMES[backend]}", "-o", str(made), str(source), "-lpthread"]
        subprocess.run(command, check=True)
        made.rename(path)
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL), str(path)


@dataclass
class Launch:
    """A launch as the GPU gets it."""

    kernel: SimpleNamespace  # cubin, variant (None: without probes)
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stream: int
    parameters: list[bytes]
    thread: int
    ran: bool = False
    gpu: Gpu | None = None  # of a kernel with records: what was passed

    def number(self, n: int) -> int:
        return int.from_bytes(self.parameters[n], "little")

    @property
    def profile_scratch(self) -> int:
        return self.number(-1)

    @property
    def probed(self) -> bool:
        return self.kernel.variant is not None


@dataclass
class FakeGpu:
    library: ctypes.CDLL
    driver: object
    launches: list[Launch] = field(default_factory=list)
    modules: dict[int, SimpleNamespace] = field(default_factory=dict)
    variants: dict[bytes, object] = field(default_factory=dict)
    calls: tuple = ()  # kept while C may call them
    stream: int = 0  # on which Triton launches now
    fails: bool = False  # launches are refused
    plain_ns: float = 100_000.0
    record_ns: float = 50.0  # that each record adds to a launch

    def loaded(self, module: int, image: int) -> None:
        binary = whole(ctypes.string_at(image, elf_bytes(ctypes.string_at(image, 64))))
        self.modules[module] = SimpleNamespace(binary=binary, sizes=parameter_sizes(binary), variant=None)

    def take(self, function: int, shape, stream: int | None, parameters) -> int:
        if self.fails:
            return -1
        kernel = self.modules[function]
        kernel.variant = self.variants.get(kernel.binary)
        held = [ctypes.string_at(parameters[n], size) for n, size in enumerate(kernel.sizes)]
        grid = tuple(shape[n] for n in range(3))
        self.launches.append(
            Launch(kernel, grid, shape[3], shape[4], stream or 0, held, threading.get_ident())
        )
        return len(self.launches) - 1

    def run(self, number: int) -> float:
        launch = self.launches[number]
        launch.ran = True
        if not launch.probed or launch.kernel.variant.code.kernel.metadata.target.backend != "cuda":
            return self.plain_ns
        launch.gpu = execute(launch)
        return self.plain_ns + self.record_ns * len(launch.gpu.passed)


class Tensor:
    """What Triton takes for a tensor of the GPU."""

    def __init__(self, shape, dtype="float32"):
        self.held = np.zeros(shape, "uint16" if dtype in ("float16", "bfloat16") else dtype)
        self.shape, self.dtype, self.device = self.held.shape, getattr(triton.language, dtype, dtype), "cuda"
        self.ndim = self.held.ndim

    def data_ptr(self) -> int:
        return self.held.ctypes.data

    def stride(self, n: int | None = None):
        strides = tuple(step // self.held.itemsize for step in self.held.strides)
        return strides if n is None else strides[n]


class Memory(Gpu):
    """The executor on real memory: the table and the blocks lie where the launch says."""

    def _store(self, by, address, value):
        address = np.broadcast_to(address, by.shape)
        value = np.broadcast_to(np.asarray(value).astype(np.uint64), by.shape)
        for n in np.flatnonzero(by):
            assert int(address[n]) % 8 == 0
            assert int(address[n]) > 0x10000
            ctypes.c_uint64.from_address(int(address[n])).value = int(value[n])


def execute(launch: Launch) -> Gpu:
    variant = launch.kernel.variant
    size = variant.code.kernel.metadata.profile_scratch_size
    programs = int(np.prod(launch.grid))
    words = (ctypes.c_uint64 * (programs * size // 8)).from_address(launch.profile_scratch)
    table = np.frombuffer(words, np.uint64).reshape(programs, size // 8)
    numbers = {n: launch.number(n) for n, p in enumerate(launch.parameters) if len(p) in (4, 8)}
    gpu = Memory(table, np.zeros(0), numbers)
    module = lowered(variant.ir["probed"], variant.code.kernel.metadata.target)
    return gpu.launch(TtgirStructure().kernels(module)[0])


@cache
def lowered(text: str, target):
    context = ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    return to_xdsl(parse_triton(text, context))


def parameter_sizes(binary: bytes) -> list[int]:
    """The bytes of each parameter of a kernel, in order, as a cubin says (EIATTR_KPARAM_INFO) or AMD's metadata."""
    if amd := re.findall(rb"\xa5\.size(.)\xab\.value_kind.(\w+)", binary, re.DOTALL):
        return [size[0] for size, kind in amd if not kind.startswith(b"hidden")]  # the driver's own
    (offset,) = struct.unpack_from("<Q", binary, 0x28)
    size, count, names = struct.unpack_from("<HHH", binary, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", binary, offset + n * size) for n in range(count)]
    strings = headers[names][4]
    sizes: dict[int, int] = {}
    for name, _, _, _, at, length in headers:
        text = binary[strings + name : binary.index(b"\0", strings + name)].decode()
        if not text.startswith(".nv.info."):
            continue
        place = at
        while place < at + length:
            form, kind, value = struct.unpack_from("<BBH", binary, place)
            if form == 4 and kind == 0x17:
                _, ordinal, _, flags = struct.unpack_from("<IHHI", binary, place + 4)
                sizes[ordinal] = flags >> 18
            place += 4 + (value if form == 4 else 0)
    return [sizes[n] for n in sorted(sizes)]


def elf_bytes(header: bytes) -> int:
    (sections,), (size, count) = (
        struct.unpack_from("<Q", header, 0x28),
        struct.unpack_from("<HH", header, 0x3A),
    )
    return sections + size * count


def whole(binary: bytes) -> bytes:
    """A binary up to the end of its section table, by which it is known."""
    return bytes(binary[: elf_bytes(binary)])


def attach(backend: str, driver) -> FakeGpu:
    """Shows launches that reach the library of this process from now on."""
    held = library(backend)[0]
    gpu = FakeGpu(held, driver)
    gpu.calls = TAKE(gpu.take), RUN(lambda number: gpu.run(number)), LOADED(gpu.loaded)
    held.fake_setup(*gpu.calls)
    held.fake_reset()
    driver.get_current_stream = lambda device=None: gpu.stream
    return gpu


def remember_variants(gpu: FakeGpu, patch) -> None:
    """Kernels with probes are known by their code when they are loaded."""
    compiled = gpu_kernel.GpuKernel.compile

    def compile(self, pipeline):
        variant = compiled(self, pipeline)
        if variant.code is not None:
            gpu.variants[whole(variant.code.kernel.kernel)] = variant
        return variant

    patch(gpu_kernel.GpuKernel, "compile", compile)


@contextmanager
def fake_gpu(machine: str, monkeypatch):
    """Triton launches on a GPU of this kind."""
    backend, arch = machine.split(":")
    path = library(backend)[1]
    ctypes.CDLL(None).setenv(b"FAKE_GPU", arch.encode(), 1)  # of the process, which Python's own view is not
    monkeypatch.setattr(triton.knobs.nvidia, "libcuda_path", os.path.dirname(path))
    gpu = attach(backend, make_driver(backend, path, monkeypatch))
    remember_variants(gpu, monkeypatch.setattr)
    before, kernels = triton.runtime.driver._active, _loaded_kernels(monkeypatch)
    triton.runtime.driver.set_active(gpu.driver)
    try:
        yield gpu
    finally:
        ctypes.CDLL(None).unsetenv(b"FAKE_GPU")  # the library stays loaded, but says that there is no GPU
        triton.runtime.driver._active = before
        for target in (find("cuda")[0], find("hip")[0]):
            target.__init__()  # forgets memory of this library
        for kernel in kernels:
            kernel.module = None  # nothing is to be unloaded
            getattr(getattr(kernel.src, "fn", None), "device_caches", {}).clear()


def _loaded_kernels(monkeypatch) -> list:
    """Kernels as Triton puts them on the GPU."""
    kind = triton.compiler.CompiledKernel
    original, found = kind._init_handles, []

    def init(self):
        found.append(self)
        original(self)

    monkeypatch.setattr(kind, "_init_handles", init)
    return found


def make_driver(backend: str, path: str, monkeypatch):
    """Triton's own driver, as it is without torch."""
    if backend == "cuda":
        from triton.backends.nvidia.driver import CudaDriver

        with monkeypatch.context() as without:
            without.setitem(sys.modules, "torch", None)
            return CudaDriver()
    from triton.backends.amd import driver as amd

    monkeypatch.setattr(triton.knobs.amd, "libhip_path", path)
    amd._get_path_to_hip_runtime_dylib.cache_clear()
    driver = amd.HIPDriver()
    driver.get_current_device = lambda: 0
    return driver
