"""Handlers with one operation changed: their tests must notice. Some handlers, or all with TILEPROBE_SIMGPU_ALL, which
takes minutes."""

import os
import re

import lane_references
import pytest
from lane_cases import cases
from lane_machine import Machine
from test_simgpu_lanes import OTHERS, differences

from tileprobe.targets.simgpu.engine import vectors
from tileprobe.targets.simgpu.engine.lanes import HANDLERS

# What is put in place of what, in LLVM's text; all of them work on vectors, so that fields are not touched.
CHANGES = {
    " = add <": " = sub <", " = sub <": " = add <", " = mul <": " = add <", " = and <": " = or <",
    " = or <": " = and <", " = xor <": " = and <", " = shl <": " = lshr <", " = lshr <": " = shl <",
    " = ashr <": " = lshr <", " = fadd <": " = fsub <", " = fmul <": " = fadd <", "icmp slt <": "icmp sgt <",
    "icmp eq <": "icmp ne <", "icmp ult <": "icmp ugt <", "icmp uge <": "icmp ult <", "fcmp olt <": "fcmp ogt <",
    "fcmp oeq <": "fcmp une <", "fcmp uno <": "fcmp ord <",
}  # fmt: skip
EVERYTHING = bool(os.environ.get("TILEPROBE_SIMGPU_ALL"))
SOME = ("iadd3_carry", "prmt", "isetp_ex", "fmnmx", "imad_hi_s", "bmsk", "shf_l_u64_hi")


def mutants(name):
    """(what was changed, LLVM's text), one change each."""
    text = vectors.text({name: HANDLERS[name]})
    for before, after in CHANGES.items():
        for found in re.finditer(re.escape(before), text):
            line = text[found.start() : text.index("\n", found.start())]
            if "sh" in before and "<i32 0, i32 0," in line:  # a shift by nothing is the same either way
                continue
            yield f"{before.strip()} at {found.start()}", text[: found.start()] + after + text[found.end() :]


def survivors(name):
    """How many mutants there are, and those that no case shows."""
    machine, alive, count = Machine(), [], 0
    for what, text in mutants(name):
        count += 1
        held, addresses = vectors.compiled(text, [name])
        given = cases(lane_references.GIVEN[name], 24)
        if not any(differences(machine, int(addresses[0]), name, case) for case in given):
            alive.append(what)
        del held
    return count, alive


@pytest.mark.parametrize("name", sorted(set(HANDLERS) - OTHERS) if EVERYTHING else SOME)
def test_a_changed_handler_is_noticed(name):
    count, alive = survivors(name)
    assert count and not alive
