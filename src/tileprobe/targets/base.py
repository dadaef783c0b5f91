"""The target protocol: all that sessions and commands know of a machine.

A target compiles a kernel with the probes that a pass pipeline puts into its IR, launches it, and either lets the
kernel write records (`takes = "record"`) or, being a simulator, knows the intervals exactly (`takes = "probe"`).
A package adds one with an entry point in the group `tileprobe.targets`; docs/targets.md shows how.

Its launchers ask `launches` before each launch; a session that is on answers with a `Watch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tileprobe.errors import TileProbeError, UnsupportedError
from tileprobe.ir.layout import Capabilities

if TYPE_CHECKING:  # a launcher imports this module: nothing heavy comes with it
    import numpy as np
    from xdsl.ir import Dialect
    from xdsl.passes import ModulePass

    from tileprobe.ir.layout import Layout
    from tileprobe.ir.machine import GlobalTimer, Unit
    from tileprobe.ir.regions import Region
    from tileprobe.ir.sampling import Sampling
    from tileprobe.ir.structure import Structure

# -- data that goes between a target and its callers --------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """A level of IR that a kernel goes through. `inspect` shows those that are `shown` unless it is told which."""

    name: str
    about: str
    shown: bool = False


@dataclass(frozen=True)
class Finding:
    """One row of `tileprobe doctor`: `good`, a `note` (something optional is not there), or `bad` with a remedy."""

    name: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class CudaProperties:
    """What a script written for CUDA is told when it asks about its GPU."""

    name: str
    capability: tuple[int, int] = (9, 0)
    multiprocessors: int = 8
    shared_bytes: int = 227 * 1024  # that one program can have
    memory_bytes: int = 16 * 2**30
    cache_bytes: int = 32 * 2**20
    warp_size: int = 32


@dataclass(frozen=True)
class Source:
    """Where a kernel was written."""

    file: str = ""
    first_line: int = 0
    text: str = ""


@dataclass(frozen=True)
class Variant:
    """A kernel compiled with probes. `key` is the same for the same code; `code` is the target's own.

    A layout of None on a target that takes records means that nothing was found to probe.
    """

    key: str
    code: Any
    layout: Layout | None = None
    regions: tuple[Region, ...] = ()
    ir: Mapping[str, str] = field(default_factory=dict)  # level -> text
    notes: tuple[str, ...] = ()  # what could not be probed, in sentences


@dataclass(frozen=True)
class Exact:
    """What a simulated machine did in a launch, known without records: intervals in ticks of the target's clock.

    `columns` are those of a trace's intervals (`region`, `start`, `stop` at least), `edges` and `counters` those
    of its other tables. A launch may be told in several parts, each with regions of its own: what the program did,
    what the units did.
    """

    columns: Mapping[str, Any]
    regions: Sequence[Region]
    units: Sequence[Unit]
    duration_ns: float
    part: str = ""  # "" is the kernel itself
    grid: tuple[int, ...] = (1,)
    edges: Mapping[str, Any] | None = None
    counters: Mapping[str, Any] | None = None
    kept: int = 0
    sampled_out: int = 0
    lost: int = 0
    notes: tuple[str, ...] = ()  # sentences for the report
    streams: tuple[str, ...] = ()  # what the streams of a program are called, where it has several
    meta: Mapping[str, Any] = field(default_factory=dict)  # more for the trace's metadata


@dataclass(frozen=True)
class PlainTruth:
    """A region in a launch without probes, by its lines: ticks from the first to the last issue of its instructions, in
    all and how often, and ticks in between that others' instructions took. Of iterations their sum alone is known, as
    the compiler may have unrolled their loop: the count is None."""

    ticks: float
    count: int | None
    others: float


@dataclass(frozen=True)
class Verified:
    """A launch of a simulated machine that also ran, from the same state, without probes and with probes that take no
    time: what is true, beside what was recorded."""

    words: np.ndarray  # (blocks, words): the records that took no time
    plain_ns: float
    free_ns: float
    plain: Mapping[int, PlainTruth] = field(default_factory=dict)  # by region, of the launch without probes


# -- what a target consists of ------------------------------------------------------------------------------------


class Buffer(Protocol):
    """Memory that the programs of one launch record into."""

    address: int

    def read(self) -> np.ndarray:
        """The words, on the host. Valid until the buffer is given back."""
        ...

    def give_back(self, used: Sequence[slice] | None = None) -> None:
        """The launch is over and its words are read. `used` are the parts, of each block, that may be set."""
        ...

    # Where the memory has `moves`, a buffer also has `move(moves, out)`: see there.


class Memory(Protocol):
    """Where a target's records and the parameters of a launch lie."""

    def take(self, blocks: int, block_words: int) -> Buffer:
        """A buffer of zeros, with its pages in place: a page fault in the kernel would be measured."""
        ...

    def put(self, words: np.ndarray) -> Any:
        """Host data that the kernel can read: an object with an `address`, valid while it is held. Where it is memory
        that the host can write to, it also has `words`, and is used again."""
        ...

    # A memory that the host reads quickly may have `moves(block_words, trips, words)`, for launches of which it is
    # known how often loops run and what is written: `trips` are, of each loop, the words of a block with trip counts
    # and the largest count; `words` are those to keep. `buffer.move(moves, out)` then copies these to the address
    # `out`, clears them and gives the buffer back at once; it returns False, having done nothing, if a loop ran
    # otherwise.


class ClockSource(Protocol):
    """The clock of a target's records: `name` is its domain, `bits` its width. Where each unit has a clock of its
    own, streams also note a `timer` that the whole machine shares, by which they are aligned. Where `hz` takes a while
    to be known, it may have `floor_ns()`, which is `floor_ticks` in nanoseconds without waiting."""

    name: str
    bits: int
    timer: GlobalTimer | None

    def start(self) -> None:
        """A session begins. A clock whose rate is measured measures from here."""
        ...

    def hz(self) -> float: ...

    def floor_ticks(self) -> float:
        """What one record costs at the least; 0 where probes are free."""
        ...


class Target(Protocol):
    """One kind of machine. Small: everything heavy is imported by the methods. More methods it may have:
    `roofs(machine)`, the most that it can compute and move (`ir.amounts.Roofs`), for a roofline; and `costs(machine)`,
    what its operations cost (`ir.flows.Costs`); a third, `roof_table()`, measures it for `doctor --roofs`."""

    name: str  # "cpu": what `--target` and a trace call it; a machine may follow after a colon: "cambricon:s"
    aliases: tuple[str, ...]
    about: str  # one line for `--help`
    structure: str  # the Structure by which the portable passes read its IR
    takes: str  # "record", or "probe" for a machine that knows exactly when a probe is passed
    levels: tuple[Level, ...]
    capabilities: Capabilities  # what its records can be
    records: Mapping[str, str | int]  # what they are unless a session says otherwise: options of assign-slots
    passes_unkept: bool  # whether records of iterations that are not kept take time as well
    hides_records: (
        bool  # whether it may go on with other work meanwhile: then what shows of a record's cost is learnt
    )
    doses: tuple[int, ...]  # how often each record is written to learn its cost; () where it costs nothing
    clock: ClockSource
    memory: Memory

    def machines(self) -> tuple[str, ...]:
        """What may follow the colon; empty when there is one machine only."""
        ...

    def use(self, machine: str = "", **settings: Any) -> AbstractContextManager[Any]:
        """Sends Triton's launches here from now on; leaving the context goes back to what was before."""
        ...

    def array(self, data: Any, dtype: Any = None) -> Any:
        """A tensor in the target's memory that kernels take."""
        ...

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        """The units that records name by these numbers."""
        ...

    def workers(self) -> int:
        """How many programs run at the same time."""
        ...

    def cuda_properties(self, machine: str = "") -> CudaProperties:
        """The GPU that scripts written for CUDA find when `cuda` is mapped to this target."""
        ...

    def launcher(self, kernel: Any, run: Any) -> Any:
        """For a target whose kernels Triton launches with a launcher that is not ours: what stands in the place of
        `run`, Triton's launcher of this compiled kernel, while somebody looks at launches. None for all others."""
        ...

    def text(self, level: str, ir: Mapping[str, str]) -> str | None:
        """The IR of a level, given those a trace keeps; a level may be made from another one (assembly)."""
        ...

    def examine(self) -> Iterable[Finding]:
        """What works here, for `tileprobe doctor`. None of the checks raises."""
        ...

    def structures(self) -> Mapping[str, Callable[[], Structure]]: ...

    def dialects(self) -> Sequence[Dialect]: ...

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]: ...


class Kernel(Protocol):
    """A compiled kernel without probes, as its launcher shows it before each launch.

    Two more it may have: `signature`, how it was specialised ("x: *fp32, n: i32, BLOCK=128, num_warps=4"), and
    `arguments`, name and type of each value that its launches tell the observer."""

    @property
    def name(self) -> str: ...

    @property
    def target(self) -> Target: ...

    @property
    def machine(self) -> str:
        """What a trace calls the machine it runs on: "cpu", "cambricon:s"."""
        ...

    @property
    def source(self) -> Source: ...

    @property
    def key(self) -> Any:
        """The same for launches of the same code."""
        ...

    def compile(self, pipeline: str) -> Variant:
        """The same kernel with the probes of a pass pipeline."""
        ...


class Watch(Protocol):
    """A launch that a session looks at. The launcher runs `variant` (or the plain kernel when that is None)
    between `start` and `stop`; the kernel finds its parameter block at `parameters`."""

    variant: Variant | None
    sampling: Sampling | None
    parameters: int
    room: int  # how many exact intervals are wanted at most
    accesses: bool  # whether what its loads and stores do to memory is wanted
    units: bool  # whether what each unit of a simulated machine did is wanted, beside what its programs did

    def start(self) -> None: ...

    def ended(
        self,
        taken_ns: int | None = None,
        duration_ns: int | None = None,
        began_ns: int | None = None,
        ran_ns: int | None = None,
    ) -> None:
        """The programs have ended. May be called before `stop`, which does it otherwise; `taken_ns` is for how long
        the operating system let something else run in their place, all threads together, where that is known;
        `duration_ns` is how long they took, where the machine has a better clock for that than Python's; `began_ns` is
        when they began, by the clock of `time.perf_counter_ns`, where that is known better than by `start`; `ran_ns` is
        for how long they ran on processors, all threads together, where that is known."""
        ...

    def stop(self) -> None: ...

    def abort(self) -> None:
        """In place of `stop` when the launch ended with an exception of its own: nothing is kept of it."""
        ...

    def exact(self, parts: Sequence[Exact]) -> None:
        """Called before `stop` by a target that takes probes."""
        ...

    def touched(self, counters: Mapping[str, Any], notes: Sequence[str] = ()) -> None:
        """Called before `stop` where `accesses` are wanted, by a target that knows them: `ir.accesses.counters`."""
        ...

    def verified(self, truth: Verified) -> None:
        """Called before `stop` by a simulated machine that knows what the launch is without what records cost."""
        ...


# -- launches -----------------------------------------------------------------------------------------------------


class Observer(Protocol):
    """Asked with the kernel, the grid, the address of the plain code (0 where there is none to go to) and what of the
    arguments tells one piece of work from another: numbers as they are, shapes of tensors."""

    def __call__(
        self, kernel: Kernel, grid: tuple[int, int, int], plain: int, arguments: tuple[Any, ...] = (), /
    ) -> Watch | None: ...


class Launches:
    """Where launchers ask whether somebody looks at a launch. One observer at a time; sessions share theirs."""

    def __init__(self) -> None:
        self.observer: Observer | None = None
        self._say: Callable[[str, str], None] | None = None

    def say(self, kernel: str, why: str) -> None:
        """A launch of a kernel passes by, and cannot be looked at."""
        if self._say is not None:
            self._say(kernel, why)

    def subscribe(
        self, observer: Observer, say: Callable[[str, str], None] | None = None
    ) -> Callable[[], None]:
        """From now on `observer` sees every launch, and `say` is told of those that cannot be looked at; the function
        returned ends that."""
        if self.observer is not None:
            raise TileProbeError(
                "launches are observed already, by another profiling session of this process"
            )
        self.observer, self._say = observer, say

        def unsubscribe() -> None:
            self.observer = self._say = None

        return unsubscribe


launches = Launches()

# Types of torch's devices besides `cpu` whose tensors lie in this machine's memory: those that are mapped here.
host_devices: set[str] = set()


class NoRecords:
    """The memory of a target that takes probes: it has none."""

    def take(self, blocks: int, block_words: int) -> Buffer:
        raise UnsupportedError("this target knows its intervals exactly and takes no records")

    def put(self, words: np.ndarray) -> Any:
        raise UnsupportedError("this target knows its intervals exactly and takes no parameters")


@dataclass
class FixedClock:
    """The clock of a simulated machine: its rate is declared, and reading it is free."""

    name: str
    rate_hz: float
    bits: int = 64
    timer: GlobalTimer | None = None

    def start(self) -> None: ...

    def hz(self) -> float:
        return self.rate_hz

    def floor_ticks(self) -> float:
        return 0.0


# -- what most targets have in common -----------------------------------------------------------------------------


class CommonTarget:
    """The parts of the protocol for which most targets need nothing of their own."""

    name: str
    aliases: tuple[str, ...] = ()
    records: Mapping[str, str | int] = MappingProxyType({})
    plays_gpu: bool = False  # scripts written for CUDA find it without being told to
    passes_unkept: bool = False
    hides_records: bool = False

    def machines(self) -> tuple[str, ...]:
        return ()

    def array(self, data: Any, dtype: Any = None) -> Any:
        raise UnsupportedError(f"the target {self.name!r} makes no tensors of its own")

    def workers(self) -> int:
        return 1

    def cuda_properties(self, machine: str = "") -> CudaProperties:
        # Kernels that size their grid by the multiprocessors should not come out as a single program.
        return CudaProperties(f"{self.name} (tileprobe)", multiprocessors=max(self.workers(), 8))

    def launcher(self, kernel: Any, run: Any) -> Any:
        return None

    def text(self, level: str, ir: Mapping[str, str]) -> str | None:
        return ir.get(level)

    def examine(self) -> Iterable[Finding]:
        return ()

    def structures(self) -> Mapping[str, Callable[[], Structure]]:
        return {}

    def dialects(self) -> Sequence[Dialect]:
        return []

    def passes(self) -> Mapping[str, Callable[[], type[ModulePass]]]:
        return {}


class SimulatedTarget(CommonTarget):
    """A machine that knows its intervals exactly: probes are free, and there are no records."""

    takes = "probe"
    capabilities = Capabilities((), (), (), (), 0)
    doses: tuple[int, ...] = ()
    memory: Memory = NoRecords()

    def units(self, numbers: Sequence[int]) -> list[Unit]:
        raise UnsupportedError(f"the units of {self.name!r} come with its intervals")
