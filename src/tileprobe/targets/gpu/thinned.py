"""Probes that a kernel can bear: where registers spill or fewer warps fit because of them, some are left out.

In comes a plain kernel and a pass pipeline; out goes the kernel with as many of its probes as leave spills and
occupancy as they were, or, where even the fewest do not, with those, and sentences that say so.
"""

from __future__ import annotations

import re
from typing import Any

from tileprobe.targets.gpu.compile import Probed, add_probes
from tileprobe.targets.gpu.evidence import side, worse

_SELECT = re.compile(r"select\{([^}]*)\}")
# What is left of the selection, and what is said about the rest.
_STEPS: tuple[tuple[dict[str, str], str], ...] = (
    ({}, ""),
    ({"min_cost": "65536.0"}, "stages of fewer than 65,536 operations have no probes of their own"),
    ({"kinds": '"dot"'}, "of stages only products and what is asynchronous have probes of their own"),
    ({"kinds": '"none"', "asynchronous": "false"}, "only loops and their iterations have probes"),
    (
        {"kinds": '"none"', "asynchronous": "false", "iterations": "false"},
        "only the kernel and its loops have probes",
    ),
)


def with_bearable_probes(
    plain: Any, pipeline: str, step: int | None = None
) -> tuple[Probed | None, int, list[str]]:
    """The kernel with probes, how many steps were needed for that, and what is to be said. A given `step` is taken as
    it is: launches that write each record several times are compared with those that write it once."""
    before = side(plain)
    steps = range(len(_STEPS)) if step is None else (step,)
    first: list[str] = []
    made, found, taken = None, [], 0
    for taken in steps:
        fewer = add_probes(plain, thinner(pipeline, taken))
        if fewer is None and made is not None:
            break
        made, found = fewer, [] if fewer is None else worse(before, side(fewer.kernel))
        first = first or found
        if not found:
            break
    if first and not found:
        return made, taken, [f"{_STEPS[taken][1]}: with all of them {_because(first)}"]
    return made, taken, found


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
