"""The driver that Triton asks while a simulated GPU is in use: what it is, how kernels are loaded and launched."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from tileprobe.targets import explain, triton_key
from tileprobe.targets.base import host_devices
from tileprobe.targets.simgpu import benchmarking
from tileprobe.targets.simgpu.machine import Machine
from tileprobe.targets.simgpu.settings import settings


class Ordinal(int):
    """Device 0 for whoever takes it as a number (`torch.randn(..., device=number)`). Triton keeps kernels by devices:
    to it those of different machines are different."""

    machine: str

    def __new__(cls, machine: str) -> Ordinal:
        made = super().__new__(cls, 0)
        made.machine = machine
        return made

    def __eq__(self, other: object) -> bool:
        return self.machine == other.machine if isinstance(other, Ordinal) else int(self) == other

    def __ne__(self, other: object) -> bool:  # that of int would not ask `__eq__`
        return not self == other

    def __hash__(self) -> int:
        return hash(self.machine)


class SimDriver(DriverBase):
    def __init__(self, name: str, machine: Machine, target: Any = None) -> None:
        """`target` is the one that it was made for: another may be made of the same parts."""
        explain.install(SimDriver)
        triton_key.install()
        benchmarking.install()
        self.name, self.machine, self.target = name, machine, target
        self.utils = _Utilities(machine)

    @cached_property
    def chip(self) -> Any:
        """Its multiprocessors and caches, for launches that are timed."""
        from tileprobe.targets.simgpu.timing.chip import Chip

        return Chip(self.machine)

    @staticmethod
    def is_active() -> bool:
        return False

    @property
    def launcher_cls(self) -> Any:
        from tileprobe.targets.simgpu.launch import Launcher

        return Launcher

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.machine.arch, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0) if "cuda" in host_devices else torch.device("cpu")

    def get_current_device(self) -> int:
        return Ordinal(self.name)

    def set_current_device(self, device: Any) -> None:
        """There is one GPU."""

    def get_current_stream(self, device: Any = None) -> int:
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.machine.capability

    def get_device_interface(self) -> Any:
        from tileprobe.targets.simgpu.device import Interface

        return Interface

    def get_benchmarker(self) -> Any:
        from tileprobe.targets.simgpu.benchmarking import benchmark

        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        return bytearray(1)

    def clear_cache(self, cache: Any) -> None:
        if settings.timed:
            self.chip.overwrite()  # Triton writes a buffer larger than L2 between two runs


class _Utilities:
    """Loading and unloading, by the names Triton calls them."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def load_binary(self, name: str, kernel: bytes, shared: int, device: Any) -> tuple[Any, ...]:
        from tileprobe.targets.simgpu.program import decode

        program = decode(bytes(kernel), name, self.machine.arch)
        return program, program, program.cubin.registers, 0, self.machine.threads_program

    def unload_module(self, module: Any) -> None: ...

    def get_device_properties(self, device: Any = None) -> dict[str, Any]:
        machine = self.machine
        return {
            "max_shared_mem": machine.shared_bytes,
            "max_num_regs": machine.registers_multiprocessor,
            "multiprocessor_count": machine.multiprocessors,
            "warpSize": 32,
            "sm_clock_rate": machine.clock_mhz * 1000,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
            "arch": f"sm_{machine.arch}",
        }
