"""The accesses of a launch on the CPU: what the IR says of them, and the addresses of a few of its programs.

Before a launch runs, some of its programs are interpreted with its own arguments (`interpret/`); what they store goes
to copies, so that the launch finds its memory as it was. Nothing of it is timed. Where an address follows from the IR
alone an access is called affine: its stride holds for every program. What is masked off, and which lines are touched,
depends on arguments, and is of the programs that were looked at.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.ir import Operation

from tileprobe.ir.accesses import AFFINE, SAMPLED, Access
from tileprobe.targets.cpu import bounds
from tileprobe.targets.cpu.access_forms import LINE, Form, forms
from tileprobe.targets.cpu.computed import Computed
from tileprobe.targets.cpu.host import host
from tileprobe.targets.cpu.interpret.launching import flat
from tileprobe.targets.cpu.interpret.program import Look, interpret, parse
from tileprobe.targets.cpu.launch_pack import Slot

PROGRAMS = 8  # that are looked at, at most
ELEMENTS = 4_000_000  # addresses, and
OPERATIONS = 20_000  # of a function that are interpreted, some 20 us each
_GOLDEN = (math.sqrt(5) - 1) / 2  # what is so far apart, modulo 1, is spread evenly, and has no period
COPIED = 1 << 30  # bytes of tensors, which may have to be copied


class _Enough(Exception):
    """As many addresses as are wanted."""


@dataclass
class _Seen:
    """What was seen of one access."""

    form: Form
    times: int = 0
    lanes: int = 0
    active: int = 0
    lines: int = 0  # of each execution, added up
    pairs: int = 0
    beside: int = 0
    low_bits: int = 0
    strides: Counter[int] = field(default_factory=Counter)
    here: list[np.ndarray] = field(default_factory=list)  # lines of the program that runs
    programs: list[np.ndarray] = field(default_factory=list)  # different lines of each program

    def touch(self, addresses: np.ndarray, mask: np.ndarray | None) -> None:
        form = self.form
        at = form.picked(addresses).astype(np.int64)
        on = np.ones(at.shape, bool) if mask is None else form.picked(np.asarray(mask, bool))
        self.times += 1
        self.lanes += at.size
        self.active += int(on.sum())
        found = lines_of(at[on], form.size)
        self.lines += found.size
        self.here.append(found)
        if at.ndim and at.shape[-1] > 1:
            steps = np.diff(at, axis=-1)[on[..., 1:] & on[..., :-1]]
            self.pairs += steps.size
            self.beside += int((steps == form.size).sum())
            values, counts = np.unique(steps, return_counts=True)
            self.strides.update(dict(zip(values.tolist(), counts.tolist())))
            if len(self.strides) > 1000:  # addresses at random
                self.strides = Counter(dict(self.strides.most_common(100)))
        starts = at[..., :: form.lanes][on[..., :: form.lanes]]
        self.low_bits |= int(np.bitwise_or.reduce(starts.reshape(-1), initial=0))

    def end(self) -> None:
        """A program has ended."""
        self.programs.append(_different(self.here))
        self.here = []

    def access(self, grid: int) -> Access:
        form, count = self.form, len(self.programs)
        figures: dict[str, float] = {"programs": count, "grid": grid, "size": form.size, "unit": LINE}
        figures |= {"width": form.width} | _of_form(form)
        if self.times:
            figures |= {
                "times": self.times,
                "lanes": self.lanes,
                "active": self.active,
                "moved": LINE * self.lines,
            }
            figures["program"] = LINE * sum(map(len, self.programs)) / max(count, 1)
            figures["sample"] = LINE * len(_different(self.programs))
        if self.active:
            figures["alignment"] = min(self.low_bits & -self.low_bits, LINE) or LINE
        if self.pairs:
            stride, times = self.strides.most_common(1)[0]
            figures |= {"stride": stride, "regular": times / self.pairs, "beside": self.beside / self.pairs}
        how = AFFINE if form.affine else SAMPLED
        return Access(form.file, form.line, form.what, "memory", form.number, how, figures)


def _of_form(form: Form) -> dict[str, float]:
    """What the IR says, where it does."""
    stride = form.strides[-1] if form.strides else None
    if stride is None or form.extents[-1] < 2:
        return {}
    return {"stride": stride, "regular": 1.0, "beside": float(stride == form.size)}


def lines_of(addresses: np.ndarray, size: int) -> np.ndarray:
    """The different lines that elements of so many bytes touch."""
    return np.unique(np.concatenate([addresses // LINE, (addresses + size - 1) // LINE]))


def _different(pieces: Sequence[np.ndarray]) -> np.ndarray:
    return np.unique(np.concatenate(pieces)) if pieces else np.zeros(0, np.int64)


def programs_of(grid: int, several: bool = False) -> list[int]:
    """All of a small grid; of a large one as many, evenly: one of each eighth, its middle. Where a grid has `several`
    axes middles may all lie in the same column (of 4 x 4 programs in the second and the last), so that each is
    somewhere else in its eighth."""
    if grid <= PROGRAMS:
        return list(range(grid))
    if not several:
        return [(2 * n + 1) * grid // (2 * PROGRAMS) for n in range(PROGRAMS)]
    ends = [n * grid // PROGRAMS for n in range(PROGRAMS + 1)]
    shares = [(n * _GOLDEN + 0.5) % 1 for n in range(PROGRAMS)]
    return [begin + int(share * (end - begin)) for begin, end, share in zip(ends, ends[1:], shares)]


def look(
    tile_ir: str,
    places: Sequence[Sequence[Any]],
    grid: tuple[int, ...],
    slots: Sequence[Slot],
    names: Sequence[str],
    args: Sequence[Any],
    scalar_only: bool = False,
) -> tuple[list[Access], list[str]]:
    """The accesses of a launch, and what is to be said of them."""
    module = parse(tile_ir)
    known = forms(module, [(str(file), int(line)) for file, line in places], host().vector_bytes, scalar_only)
    seen = {op: _Seen(form) for op, form in known.items()}
    computed = Computed(module)
    count = math.prod(grid)
    try:
        cut = _run(seen, computed, module, grid, count, names, flat(slots, args), args)
    except Exception as error:  # a program that waits for others; tensors of which nothing is known
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        found = [_alone(form, count) for form in known.values() if form.affine]
        return found, [f"addresses were not looked at ({why}); what is said of memory is from the IR alone"]
    notes = [f"of its addresses the first {cut:,} were looked at"] if cut else []
    looked_at = max((len(one.programs) for one in seen.values()), default=0)
    return [*(one.access(count) for one in seen.values()), *computed.rows(looked_at, count, len(seen))], notes


def _run(
    seen: dict[Operation, _Seen], computed: Computed, module: Any, grid: tuple[int, ...], count: int,
    names: Sequence[str], values: list[Any], args: Sequence[Any],
) -> int:  # fmt: skip
    """Interprets some programs. How many addresses there were if that was stopped before the end, else 0."""
    extents = bounds.extents(names, args)
    if extents is None:
        raise ValueError("a tensor of unknown size")
    if sum(extent.end - extent.begin for extent in extents) > COPIED:
        raise ValueError(f"its tensors have more than {COPIED >> 30} GB")
    addresses = operations = 0
    begun = False

    def touched(op: Operation, at: np.ndarray, mask: np.ndarray | None) -> None:
        nonlocal addresses
        addresses += at.size
        seen[op].touch(at, mask)
        computed.touched(op, mask)
        if addresses > ELEMENTS:
            raise _Enough

    def after(op: Operation) -> None:
        nonlocal operations
        operations += 1
        computed.after(op)
        if operations > OPERATIONS:
            raise _Enough

    def begin(number: int) -> None:
        nonlocal begun
        if begun:
            for one in seen.values():
                one.end()
        begun = True

    cut = 0
    try:
        interpret(
            module,
            grid,
            values,
            extents,
            begin=begin,
            after=after,
            look=Look(programs_of(count, sum(size > 1 for size in grid) > 1), touched),
        )
    except _Enough:
        cut = addresses
    if not cut or not any(one.programs for one in seen.values()):  # better a part of a program than none
        for one in seen.values():
            one.end()
    return cut


def _alone(form: Form, grid: int) -> Access:
    """From the IR, for a tile that begins at the beginning of a line."""
    figures: dict[str, float] = {
        "programs": 0,
        "grid": grid,
        "size": form.size,
        "unit": LINE,
        "width": form.width,
    }
    figures |= _of_form(form) | {"times": 1, "lanes": form.points, "active": form.points}
    at = np.zeros(1, np.int64)
    for extent, stride in zip(form.extents, form.strides):
        at = (at[:, None] + np.arange(extent) * (stride or 0)).reshape(-1)
    figures["moved"] = LINE * len(lines_of(at, form.size))
    return Access(form.file, form.line, form.what, "memory", form.number, AFFINE, figures)
