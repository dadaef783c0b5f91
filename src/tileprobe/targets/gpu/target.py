"""GPUs as targets: Triton's own NVIDIA and AMD backends compile and launch, records are lowered into their IR.

Compiling needs no GPU; the machine after the colon (`cuda:90`, `hip:gfx942`) is the one to compile for.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping, Sequence
from ctypes import ArgumentError
from typing import TYPE_CHECKING, Any

from tileprobe.errors import TileProbeError
from tileprobe.ir.layout import Capabilities
from tileprobe.ir.machine import GlobalTimer, Unit
from tileprobe.targets.base import CommonTarget, CudaProperties, Level
from tileprobe.targets.gpu.device import Device
from tileprobe.targets.gpu.driver_library import DriverLibrary
from tileprobe.targets.gpu.gpu_clock import GpuClock
from tileprobe.targets.gpu.record_memory import GpuMemory
from tileprobe.targets.triton_driver import Chosen, driver_of, refuse_settings

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from tileprobe.ir.structure import Structure
    from tileprobe.targets.gpu.launcher import GpuLauncher
    from tileprobe.targets.gpu.static import Static

_OURS = (
    Level("ttir", "Triton's"),
    Level("ttgir", "Triton's for GPUs", shown=True),
    Level("probe", "what is measured", shown=True),
    Level("record", "how", shown=True),
    Level("probed", "records in Triton's IR"),
)


# `%globaltimer` counts nanoseconds; PTX leaves open in which steps it moves, and about 1 us is the longest that is
# spoken of. Records show the step there is (gpu_clock.py). AMD's `s_memrealtime` counts at 100 MHz.
_NVIDIA_TIMER = GlobalTimer(1e9, 1024.0)
_AMD_TIMER = GlobalTimer(1e8, 1.0)


class GpuTarget(CommonTarget):
    """Kernels of Triton's GPU backends. A machine that stands behind another driver says whose launches are its own
    (`owns`) and how memory is had there (`make_device`)."""

    about: str
    levels: tuple[Level, ...]
    capabilities: Capabilities
    backend: str
    architectures: tuple[str, ...]
    structure = "ttgir"
    takes = "record"
    doses: tuple[int, ...] = (1, 3)
    passes_unkept = True
    device_files: tuple[str, ...] = ()
    hidden_by = ""  # the variable by which users take GPUs away from a process
    stated_timer = _NVIDIA_TIMER

    def __init__(self) -> None:
        self._device: Device | None = None
        self.memory = GpuMemory(self.device)
        self.clock = GpuClock(self.device, self.stated_timer, self.clock_width)

    def device(self) -> Device:
        if self._device is None:
            self._device = self.make_device()
        return self._device

    def present(self) -> bool:
        """Whether this machine has such a GPU, by its device files; whether it answers is known when it is used."""
        hidden = os.environ.get(self.hidden_by, "all") in ("", "-1")
        return not hidden and any(glob.glob(pattern) for pattern in self.device_files)

    def make_device(self) -> Device:
        return DriverLibrary(self.name)

    def clock_width(self) -> int:
        """Bits of the clock that records read, on the GPU that is there."""
        return 64

    def owns(self, driver: Any) -> bool:
        """Whether launches that Triton makes with this driver run here."""
        from triton.backends import backends

        return isinstance(driver, backends[self.backend].driver)

    def called(self, kernel: Any) -> str:
        """The machine that a compiled kernel runs on, as a trace names it."""
        return f"{self.name}:{kernel.metadata.target.arch}"

    def launcher(self, kernel: Any, run: Any) -> Any:
        """What stands in the place of Triton's launcher of a kernel while somebody looks at launches; None if the
        kernel does not run here."""
        from triton.runtime import driver

        return self.launcher_class()(kernel, run, self) if self.owns(driver.active) else None

    def launcher_class(self) -> type[GpuLauncher]:
        from tileprobe.targets.gpu.launcher import GpuLauncher

        return GpuLauncher

    def machines(self) -> tuple[str, ...]:
        return self.architectures

    def use(self, machine: str = "", **settings: Any) -> Any:
        refuse_settings(self.name, settings)
        chosen = Chosen(driver_of(self.backend, must_answer=True))
        self._check_machine(machine)
        return chosen

    def _check_machine(self, machine: str) -> None:
        from triton.runtime import driver

        active: Any = driver.active
        there = str(active.get_current_target().arch)
        if machine and machine != there:
            raise TileProbeError(
                f"the GPU here is {self.name}:{there}; kernels for {self.name}:{machine} can be inspected here, "
                f"but not run: tileprobe inspect --target {self.name}:{machine}"
            )

    def static(self, machine: str = "") -> Static:
        """Compiles what a script launches for a machine that need not be there, and runs none of it: static evidence,
        for `tileprobe inspect`."""
        from tileprobe.targets.gpu.static import Static

        if not machine:
            raise TileProbeError(
                f"name the machine to compile for: {', '.join(f'{self.name}:{m}' for m in self.architectures)}"
            )
        return Static(self.name, machine)

    def array(self, data: Any, dtype: Any = None) -> Any:
        from tileprobe.targets.gpu.tensors import DeviceArray

        return DeviceArray(self.device(), data, dtype)

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        return [Unit(int(n), f"SM {n}", "sm") for n in numbers]

    def workers(self) -> int:
        try:
            return self.device().properties().multiprocessors
        except (AssertionError, ImportError, OSError, RuntimeError, ArgumentError, TileProbeError):
            return 1  # no GPU, no driver, or another target's is the active one

    def cuda_properties(self, machine: str = "") -> CudaProperties:
        """Of an architecture that is named and need not be here: what is known of it, whatever drivers say."""
        from tileprobe.targets.gpu.compile import gpu_target, most_shared_bytes

        if not machine:
            return super().cuda_properties()
        digits = machine.removeprefix("gfx")
        major, minor = (digits[:-1], digits[-1]) if digits == machine else (digits[:-2], digits[-2])
        return CudaProperties(
            f"{self.name}:{machine} (tileprobe)",
            (int(major), int(minor)),
            shared_bytes=most_shared_bytes(machine),
            warp_size=gpu_target(self.name, machine).warp_size,
        )

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        from tileprobe.targets.gpu.structure import TtgirStructure

        return {"ttgir": TtgirStructure}

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        from tileprobe.passes import passes_in

        return passes_in("tileprobe.targets.gpu.passes")


class CudaTarget(GpuTarget):
    name = "cuda"
    aliases = ("nvidia",)
    about = "an NVIDIA GPU through Triton's backend; without one, kernels can be compiled and inspected"
    backend = "nvidia"
    device_files = ("/dev/nvidia[0-9]*", "/dev/dxg")  # the latter is Windows' under WSL
    hidden_by = "CUDA_VISIBLE_DEVICES"
    architectures = ("80", "86", "89", "90", "100", "120")
    levels = (*_OURS, Level("ptx", "PTX"), Level("sass", "machine code"))
    capabilities = Capabilities(
        ("program", "warp", "warp_group"),
        ("global", "shared"),
        ("exact", "circular", "flush"),
        (64, 32),
        streams=64,
    )


class HipTarget(GpuTarget):
    name = "hip"
    aliases = ("amd",)
    about = "an AMD GPU through Triton's backend; without one, kernels can be compiled and inspected"
    backend = "amd"
    device_files = ("/dev/kfd",)
    hidden_by = "HIP_VISIBLE_DEVICES"
    architectures = ("gfx942", "gfx950", "gfx1100")
    stated_timer = _AMD_TIMER
    levels = (*_OURS, Level("amdgcn", "machine code"))
    capabilities = Capabilities(
        ("program", "warp", "warp_group"),
        ("global", "shared"),
        ("exact", "circular", "flush"),
        (64, 32),
        streams=64,
    )

    def clock_width(self) -> int:
        """The shader's cycle counter of RDNA 3 has 20 bits (RDNA 3 ISA, SHADER_CYCLES)."""
        from triton.runtime import driver

        active: Any = driver.active
        return 20 if str(active.get_current_target().arch).startswith("gfx11") else 64

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        """Compute units, by the parts that contain them: the lowest four bits count within a shader engine."""
        return [Unit(int(n), f"engine {int(n) >> 4}, CU {int(n) & 15}", "cu") for n in numbers]
