"""A script's kernels compiled for a machine that need not be there: made Triton's target for a block, then asked.

In comes the machine and, afterwards, the pipeline of the probes to compare with; out goes the evidence of each kernel,
as data and as a table for people.
"""

from __future__ import annotations

from typing import Any

from tileprobe.errors import TileProbeError
from tileprobe.targets.gpu.bank_conflicts import UNKNOWN
from tileprobe.targets.gpu.compile import gpu_target
from tileprobe.targets.gpu.compile_only import CompileOnly
from tileprobe.targets.triton_driver import Chosen

_LINES, _UNITS_A_LINE = 12, 4  # that are shown; JSON has all
_COLUMNS = (
    ("instructions", "instructions"),
    ("registers", "registers"),
    ("spilled bytes", "spill_bytes"),
    ("shared bytes", "shared_bytes"),
    ("warps", "occupancy_warps"),
    ("records", "records"),
    ("own", "own_instructions"),
)


class Static:
    """A context manager: launches in it are compiled and not run."""

    def __init__(self, target: str, machine: str) -> None:
        self._driver = CompileOnly(gpu_target(target, machine))
        self._chosen: Chosen | None = None

    def __enter__(self) -> Static:
        self._chosen = Chosen(self._driver)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._chosen is not None:
            self._chosen.__exit__(*error)

    def kernels(self, pipeline: str, names: Any, *, proton: bool = True) -> list[dict[str, Any]]:
        """The evidence of each kernel whose name `names` takes, in the order of their first launch."""
        from tileprobe.targets.gpu.evidence import evidence

        made = []
        for kernel in self._driver.compiled():
            if names(kernel.metadata.name):
                try:
                    made.append(evidence(kernel, pipeline, proton=proton))
                except TileProbeError as error:
                    raise type(error)(f"kernel {kernel.metadata.name}: {error}") from error
        return made

    def text(self, kernels: list[dict[str, Any]]) -> str:
        """Evidence as tables."""
        return "\n\n".join(_table(kernel) for kernel in kernels)


def _table(kernel: dict[str, Any]) -> str:
    lines = [f"{kernel['name']} for {kernel['target']} (static: counts of machine code, nothing was run)"]
    lines.append("  " + " ".join(f"{title:>13}" for title in ("", *(title for title, _ in _COLUMNS))))
    for side in ("plain", "probed", "proton"):
        held = kernel[side]
        if held is not None:
            cells = [held.get(key, "") for _, key in _COLUMNS]
            lines.append("  " + " ".join(f"{cell!s:>13}" for cell in (side, *cells)))
    plain = kernel["plain"]
    if plain["occupancy_limiter"]:
        lines.append(f"  warps on a multiprocessor are limited by {plain['occupancy_limiter']}")
    mix = ", ".join(f"{unit} {count}" for unit, count in plain["mix"].items())
    lines.append(f"  instructions by unit: {mix}")
    lines += _by_line(plain["lines"])
    if plain["tensor_core"]:
        lines.append(f"  tensor core: {', '.join(f'{op} x{n}' for op, n in plain['tensor_core'].items())}")
    stages = ", ".join(f"{each['stages']} (loop at line {each['line']})" for each in plain["pipeline_stages"])
    lines.append(
        f"  pipeline stages: {stages or 'no loop fetches anything'}; conversions between layouts: "
        f"{plain['layout_conversions']}"
    )
    widths = [f"{_where(a)} {a['opcode']} {a['bytes']} bytes x{a['count']}" for a in plain["accesses"]]
    lines.append(f"  accesses: {'; '.join(widths) or 'none'}")
    lines += _conflicts(plain["bank_conflicts"])
    probed = kernel["probed"] or {}
    for moved in probed.get("moved", ()):
        lines.append(f"  line {moved['line']}: {moved['share']:.0%} of {moved['op']} moved out of its region")
    lines += [f"  {note}" for note in kernel["notes"]]
    return "\n".join(lines)


def _by_line(lines: list[dict[str, Any]]) -> list[str]:
    """The source lines with most instructions, in the order of the source, and what their instructions are."""
    most = sorted(lines, key=lambda one: -one["instructions"])[:_LINES]
    found = [
        f"    {_where(one)}  {one['instructions']}: "
        + ", ".join(f"{unit} {count}" for unit, count in list(one["mix"].items())[:_UNITS_A_LINE])
        for one in lines
        if one in most and one["line"]
    ]
    left = sum(one["instructions"] for one in lines) - sum(one["instructions"] for one in most if one["line"])
    return ["  instructions by line:", *found, *([f"    elsewhere  {left}"] if left else [])]


def _where(access: dict[str, Any]) -> str:
    """The line of an access; with the name of its file."""
    return f"{access['file'].rsplit('/', 1)[-1]}:{access['line']}"


def _conflicts(accesses: list[dict[str, Any]]) -> list[str]:
    """What shared memory is asked too often for, and of what that is not known."""
    found = [
        f"line {a['line']} {a['op']} {a['wavefronts']} wavefronts a warp instead of {a['least']}"
        for a in accesses
        if a["extra"]
    ]
    unknown = sum(a["count"] for a in accesses if a["instruction"] == UNKNOWN)
    said = "; ".join(found) or "none"
    return [
        f"  bank conflicts by layout: {said}" + (f" (of {unknown} accesses not known)" if unknown else "")
    ]
