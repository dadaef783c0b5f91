"""Probes that a kernel can bear: where registers spill or fewer warps fit because of them, some are left out.

In comes a plain kernel and a pass pipeline; out goes the kernel with as many of its probes as can be borne, the least
telling ones left out first: nothing more is spilled, at least seven of eight warps still fit, and, unless every stage
was asked for, records take little of their loop's time. Where none is so, the one that spills least is taken.
Sentences say what was left out, what it would have cost, and what is still worse.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tileprobe.targets.gpu.compile import Probed, add_probes
from tileprobe.targets.gpu.evidence import Side, side, worse

# Of the warps of a multiprocessor: what users lose without probes for iterations is more than what one warp in eight
# changes. What is lost is said.
_BEARABLE = 1 / 8
# Of a loop's time at the least (`worth.py`), for records that nobody asked for by name: what KPerfIR's take in all. A
# report that has loops alone says little of what overlaps in them.
_LIGHT = 0.082
_SELECT = re.compile(r"select\{([^}]*)\}")
# What is left of the selection, and what is said about the rest.
_STEPS: tuple[tuple[dict[str, str], str], ...] = (
    ({}, ""),
    ({"min_cost": "65536.0"}, "stages of fewer than 65,536 operations have no probes of their own"),
    ({"kinds": '"dot"'}, "of stages only products and what is asynchronous have probes of their own"),
    ({"kinds": '"none"'}, "of stages only what is asynchronous has probes of its own"),
    ({"kinds": '"none"', "asynchronous": "false"}, "only loops and their iterations have probes"),
    (
        {"kinds": '"none"', "asynchronous": "false", "iterations": "false"},
        "only the kernel and its loops have probes",
    ),
)


@dataclass(frozen=True)
class _Try:
    """A kernel with some of its probes: bytes that are spilled because of them, warps that no longer fit, and what that
    is in words."""

    made: Probed
    step: int
    spilled: int
    lost: float
    said: list[str]
    heavy: bool = False  # records take more of a loop's time than they are worth

    @property
    def bearable(self) -> bool:
        return self.spilled == 0 and self.lost <= _BEARABLE and not self.heavy


def with_bearable_probes(
    plain: Any, pipeline: str, step: int | None = None, *, weighed: bool = True
) -> tuple[Probed | None, int, list[str]]:
    """The kernel with probes, how many steps were needed for that, and what is to be said. A given `step` is taken as
    it is: launches that write each record several times are compared with those that write it once. Records that take
    no time are not `weighed`."""
    before = side(plain)
    tried: list[_Try] = []
    for number in range(len(_STEPS)) if step is None else (step,):
        made = add_probes(plain, thinner(pipeline, number))
        if made is None:
            break
        tried.append(_tried(made, number, before, light=weighed and _chosen_for_the_user(pipeline)))
        if tried[-1].bearable:
            break
    if not tried:
        return None, step or 0, []
    best = min(tried, key=lambda one: (not one.bearable, one.spilled, one.lost))
    said = list(best.said)
    if best.step and step is None:
        why = _because(tried[0].said)
        if tried[0].heavy:
            more = "; --dense has them" if not tried[0].spilled else ""
            light = f"records may take {tried[0].made.share:.0%} of a loop's time, more than {100 * _LIGHT:g} %{more}"
            why = "; ".join(filter(None, (why, light)))
        said.insert(0, f"{_STEPS[best.step][1]}: with all of them {why}")
    return best.made, best.step, said


def _chosen_for_the_user(pipeline: str) -> bool:
    """Whether stages are probed by what they are worth; who asks for all of them gets them."""
    found = re.search(r"min_cost=([\d.e+]+)", pipeline)
    return found is not None and float(found[1]) > 0


def _tried(made: Probed, step: int, before: Side, *, light: bool = False) -> _Try:
    after = side(made.kernel)
    had = before["occupancy_warps"] or 0
    lost = 1 - min(1.0, (after["occupancy_warps"] or 0) / had) if had else 0.0
    spilled = max(0, after["spill_bytes"] - before["spill_bytes"])
    return _Try(made, step, spilled, lost, worse(before, after), light and made.share > _LIGHT)


def _because(sentences: list[str]) -> str:
    return "; ".join(
        text.removeprefix("with probes ").split(": times")[0].split("; probe")[0] for text in sentences
    )


def thinner(pipeline: str, step: int) -> str:
    """The same pipeline with fewer ops selected."""
    found = _SELECT.search(pipeline)
    if found is None or not step:
        return pipeline
    options = dict(re.findall(r'(\w+)=("[^"]*"|\S+)', found[1])) | _STEPS[step][0]
    text = " ".join(f"{name}={value}" for name, value in options.items())
    return pipeline[: found.start()] + f"select{{{text}}}" + pipeline[found.end() :]
