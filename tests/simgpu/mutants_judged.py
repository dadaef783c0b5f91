"""Changes that tests do not notice, with why: patterns over their names, the first that fits counts.

`NONE` are changes that change nothing that can be seen, `GAP` are those that a test could notice and none does. Of
`KERNEL` no case of a single instruction fails, and a kernel's own test does; each was tried against that test.
"""

from __future__ import annotations

import re

NONE, GAP, KERNEL = "no change", "gap", "a kernel's test fails"

# (pattern, verdict, why)
FAMILIES = (
    (r"range\(32\):`: 32 to 33|range\(first\(mask\) \+ 1, 32\)", NONE, "bit 32 of a mask is never set"),
    (r"range\(16\):`: 16 to 17", NONE, "there is no sixteenth: it is never waited for, never meant"),
    (r"barriers\.leave", GAP, "only the engine's loop calls it: kernels run it, no case does"),
    (
        r"_arrive_of: `while last < made .*(GtE to Gt|0 to 1)",
        NONE,
        "a copy has at least four bytes, and an arrival is below zero",
    ),
    (r"lowest = 1 << 30", NONE, "any number above all places in the code"),
    (r"branch_each: `park\(warp, active", NONE, "lanes of the mask are given their own place right after"),
    (r"(_MASK|CLUSTER_ARRIVED|ASYNC_SHARED|_GLOBAL)\b.*: Add to Sub", NONE, "what is added is 0"),
    (r"low >= 0 and high >= 0 and .*0 to 1", NONE, "no memory lies at address 0"),
    (r"addresses\.inside: .*last\) and .*(LtE to Lt|GtE to Gt)", NONE, "the loop finds the same range"),
    (r"check_global: `if address < 0 or .*Lt to LtE", NONE, "no memory lies at address 0"),
    (r"descriptor_of: `if descriptor == 0 or .*0 to 1", NONE, "neither address can be a descriptor's"),
    (r"atomics\._less: .*Lt to LtE", NONE, "of two equal numbers it does not matter which one is kept"),
    (
        r"reductions\._halves: .*(Lt to LtE|Gt to GtE)",
        NONE,
        "of two equal numbers either is kept, but for zeros",
    ),
    (r"to_half: `bits \+= 1 if", NONE, "it only says on which side of a tie the number lies"),
    (r"bulk\._move: `if base and first", NONE, "the slower way, element by element, does the same"),
    (
        r"clusters\.after_end: .*CTA_WARPS\)`: Add to Sub",
        KERNEL,
        "test_a_program_ends_while_others_read_its_shared_memory",
    ),
    (r"clusters\.member: `if raw", NONE, "on sm_80 addresses name program 0, which is the program itself"),
    (r"_match: `words, same", NONE, "written before it is read"),
    (r"_reduce: `if \(y < x\)", NONE, "x and y differ there"),
    (r"exchange\._signed", NONE, "the order of numbers is the same"),
    (r"fields\.row: `if offset < 0", NONE, "no operand lies at offset 0"),
    (r"(_local|local_access): `if size < 4", NONE, "four bytes go the other way as well"),
    (r"memory\._move: `if size == 4", NONE, "the slower way, lane by lane, does the same"),
    (r"(_ENTRIES|_FAST)\[5\]", NONE, "both are the same handler"),
    (r"256 >> mode.*256 to 257", NONE, "shifted by at least one"),
    (r"pieces = 0 if mode else .*16 to 17", NONE, "lines have 32 bytes, always"),
    (r"from_f8\(.*: 1 to 2|from_f8\(.*1\)\)`: 1 to 2", NONE, "any kind but 0 is the second one"),
    (r"groups\._put_c: `for n in range\(4\)", NONE, "a line of scratch memory that nobody reads"),
    (r"mbarriers\.is_one: .*GtE to Gt", NONE, "0 has no mark"),
    (r"mbarriers\.passed: .*1 to 2", NONE, "it is only asked whether it is positive"),
    (r"check_shared: `if low < start.*: (Gt to GtE|Lt to LtE)", NONE, "then lanes are looked at one by one"),
    (
        r"check_shared: `if raw.i64\(out \+ TOGETHER.*BitAnd to BitOr",
        NONE,
        "then lanes are looked at one by one",
    ),
    (r"_directed: `(el)?if direction == .*(Lt to LtE|Gt to GtE)", NONE, "what was lost is not 0 there"),
    (r"_directed: `(x, y|z) = .*1 to 2", NONE, "it is only asked whether it is 0"),
    (r"_directed_integer: `back = 9223372036854775807", NONE, "not looked at where it is that large"),
    (
        r"(_directed_integer: `if not signed|_i2f: `if bits == 64 and|_unsigned_float: `if value)",
        NONE,
        "0 is exact",
    ),
    (r"kind & 256.*256 to 257", NONE, "widths are even"),
    (r"_half_bits: .*32768 to 32769", NONE, "numbers of eight bits have no such digit"),
    (r"_mufu: .*math.cos.*operands exchanged", NONE, "the cosine of a number is that of its negative"),
    (r"_to_integer: `if value < -limit|_to_integer: `if value <= 0.0", NONE, "the number itself comes out"),
    (
        r"_to_integer: `return -1 if bits == 64.*64 to 65|_to_integer: .*BitXor to BitOr",
        NONE,
        "the same 64 bits",
    ),
    (r"to_f8: `if exponent < 1 - bias", NONE, "both formulas agree at the smallest normal number"),
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
