"""Simulated GPUs as a target: `sim:a100`, `sim:h100`. Triton's NVIDIA backend compiles, the machine code runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.base import CudaProperties
from tileprobe.targets.gpu.target import CudaTarget, GpuTarget
from tileprobe.targets.simgpu.chip_clock import ChipClock

if TYPE_CHECKING:
    from tileprobe.ir.amounts import Roofs
    from tileprobe.targets.gpu.static import Static
    from tileprobe.targets.simgpu.sass import TimedLaunches
    from tileprobe.targets.simgpu.session_launcher import SimLauncher

_DEFAULT = "a100"


class SimTarget(GpuTarget):
    name = "sim"
    about = (
        "an NVIDIA GPU made of software: the machine code that Triton makes for it is executed, with no GPU"
    )
    backend = "nvidia"
    plays_gpu = True
    levels = CudaTarget.levels
    capabilities = CudaTarget.capabilities

    def __init__(self) -> None:
        super().__init__()
        self.clock = ChipClock()

    @property
    def doses(self) -> tuple[int, ...]:  # type: ignore[override]
        """How often each record is written to learn its cost. Those that are free have none, but the compiler makes
        other code around them, so that launches without them are still of use."""
        from tileprobe.targets.simgpu.settings import settings

        if settings.no_probes:
            return ()
        return (1,) if settings.free_probes else GpuTarget.doses

    @property
    def takes(self) -> str:  # type: ignore[override]
        from tileprobe.targets.simgpu.settings import settings

        return "probe" if settings.no_probes else "record"

    def present(self) -> bool:
        return False  # it is everywhere, and chosen by name

    def owns(self, driver: Any) -> bool:
        from tileprobe.targets.simgpu.driver import SimDriver

        return isinstance(driver, SimDriver) and driver.target in (None, self)

    def called(self, kernel: Any) -> str:
        from triton.runtime import driver

        active: Any = driver.active
        return f"{self.name}:{active.name}"

    def launcher_class(self) -> type[SimLauncher]:
        from tileprobe.targets.simgpu.session_launcher import SimLauncher

        return SimLauncher

    def make_device(self) -> Any:
        from tileprobe.targets.simgpu.session_device import SimDevice

        return SimDevice()

    def machines(self) -> tuple[str, ...]:
        from tileprobe.targets.simgpu.machine import names

        return names()

    def scales(self) -> tuple[str, ...]:
        """What of the machine can be made faster, one thing at a time (`running_on`)."""
        from tileprobe.targets.simgpu.derived import NAMES

        return NAMES

    def running_on(self, what: str | None, times: float) -> Any:
        from tileprobe.targets.simgpu.derived import running_on

        return running_on(what, times)

    def delayed(self, lines: Any) -> Any:
        from tileprobe.targets.simgpu.derived import delayed

        return delayed(lines)

    def lines_faster(self, lines: Any) -> Any:
        from tileprobe.targets.simgpu.derived import lines_faster

        return lines_faster(lines)

    def without(self, lines: Any) -> Any:
        from tileprobe.targets.simgpu.derived import without

        return without(lines)

    def lines_of(self, run: Any) -> Any:
        from tileprobe.targets.simgpu.derived import lines_of

        return lines_of(run)

    def measured(self, run: Any) -> float | None:
        from tileprobe.targets.simgpu.derived import measured

        return measured(run)

    def use(
        self,
        machine: str = "",
        *,
        threads: int | None = None,
        check: bool | str | None = None,
        step_limit: int | None = None,
        fast_sums: bool | None = None,
        timed: bool | None = None,
        cold: bool | None = None,
        probes: str | None = None,
        clock: str | None = None,
        verify: bool | None = None,
        waves: int | None = None,
        sms: int | None = None,
    ) -> Any:
        from tileprobe.targets.simgpu import lines
        from tileprobe.targets.simgpu.driver import SimDriver
        from tileprobe.targets.simgpu.machine import machine as load
        from tileprobe.targets.simgpu.settings import Settings, check_part, settings
        from tileprobe.targets.triton_driver import Chosen

        before = vars(settings).copy()
        given = {"threads": threads, "check": check, "step_limit": step_limit, "fast_sums": fast_sums}
        if probes not in (None, "none", "free", "real"):
            raise TileProbeError(f"probes of a simulated GPU are none, free or real, not {probes!r}")
        if clock not in (None, "nominal", "sustained"):
            raise TileProbeError(f"the clock of a simulated GPU is nominal or sustained, not {clock!r}")
        given |= {"clock": clock}
        given |= {"timed": timed, "cold": cold, "probes": probes, "verify": verify}
        given |= {"waves": waves, "sms": sms}
        check_part(given)
        if verify:
            given["timed"] = True  # there is nothing to verify where nothing takes time
        asked = {name: value for name, value in given.items() if value is not None}
        vars(settings).update(vars(Settings()) | asked)  # what was said before is over
        name = machine or _DEFAULT
        found = load(name).sustained() if settings.clock == "sustained" else load(name)
        driver = SimDriver(name, found, self)
        end = lines.begin()

        def restore() -> None:
            vars(settings).update(before)
            end()

        return Chosen(driver, restore)

    def static(self, machine: str = "") -> Static:
        """What is known of a script's kernels without running them is that of the GPU."""
        from tileprobe.targets.gpu.static import Static
        from tileprobe.targets.simgpu.machine import machine as load

        return Static("cuda", str(load(machine or _DEFAULT).arch))

    def timed_launches(self, machine: str = "", **settings: Any) -> TimedLaunches:
        """Runs what a script launches with time, for a listing of the machine code with what each instruction took."""
        from tileprobe.targets.simgpu.sass import TimedLaunches

        return TimedLaunches(self.use(machine, timed=True, **settings))

    def array(self, data: Any, dtype: Any = None) -> Any:
        from tileprobe.targets.catalog import DEFAULT, find

        return find(DEFAULT)[0].array(data, dtype)  # memory of this machine, as the CPU's

    def roofs(self, machine: str = "") -> Roofs:
        from tileprobe.targets.simgpu.machine import machine as load
        from tileprobe.targets.simgpu.settings import settings

        found = load(machine or _DEFAULT)
        return (found.sustained() if settings.clock == "sustained" else found).roofs()

    def cuda_properties(self, machine: str = "") -> CudaProperties:
        from tileprobe.targets.simgpu.machine import machine as load

        found = load(machine or _DEFAULT)
        return CudaProperties(
            found.name,
            found.capability,
            found.multiprocessors,
            found.shared_bytes,
            found.memory_bytes,
            found.cache_bytes,
        )
