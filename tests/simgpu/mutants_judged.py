"""Changes that tests do not notice, with why: patterns over their names, the first that fits counts.

`NONE` are changes that change nothing that can be seen, `GAP` are those that a test could notice and none does.
"""

from __future__ import annotations

import re

NONE, GAP = "no change", "gap"

# (pattern, verdict, why)
FAMILIES = (
    (r"range\(32\):`: 32 to 33", NONE, "bit 32 of a mask is never set, and nothing is done for it"),
    (r"range\(16\):`: 16 to 17", NONE, "barrier 16 is never waited for, program 16 never meant"),
    (
        r"control\.(rotate)|barriers\.one_less",
        GAP,
        "only the engine's loop calls it: kernels run it, no case does",
    ),
    (r"lowest = 1 << 30", NONE, "any number above all places in the code"),
    (r"branch_each: `park\(warp, active", NONE, "lanes of the mask are given their own place right after"),
    (r"atomics\._less: .*Lt to LtE", NONE, "of two equal numbers it does not matter which one is kept"),
    (
        r"reductions\._halves: .*(Lt to LtE|Gt to GtE)",
        NONE,
        "of two equal numbers either is kept, but for zeros",
    ),
    (r"first = raw.i32|`found = 0", GAP, "not tried"),
)


def verdict(name: str) -> tuple[str, str]:
    """Of a change in a family that survived: what it is taken for, and why."""
    for pattern, what, why in FAMILIES:
        if re.search(pattern, name):
            return what, why
    return GAP, ""


def lane_verdict(name: str, what: str) -> tuple[str, str]:
    """The same of a change in a handler over lanes; those that many more inputs do not show end in a question mark."""
    if what.endswith("(?)"):
        return NONE, "none of 600 more inputs shows it"
    return GAP, ""
