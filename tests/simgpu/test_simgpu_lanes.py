"""Every handler over lanes against its reference, and that a changed handler is noticed."""

import lane_references
import numpy as np
import pytest
from lane_cases import CASES, cases
from lane_machine import Machine, lanes

from tileprobe.targets.simgpu.engine import vectors
from tileprobe.targets.simgpu.engine.lanes import HANDLERS

# Those with tests of their own: addresses and matrices need memory around them, functions are not exact.
OTHERS = {
    name for name in HANDLERS if name.startswith(("addresses", "hmma", "imma", "dmma", "block", "mufu"))
}


def differences(machine, address, name, given):
    """What a handler answers otherwise than its reference."""
    given.third = name == "plop3"
    found, wanted = machine.run(address, given), lane_references.REFERENCES[name](given)
    on = lanes(given.mask)
    wrong = []
    for key, value in wanted.items():
        if key == "slots":
            wrong += ["slots"] * int((found["slots"] != np.where(on, value, given.slots)).any())
            continue
        is_row = isinstance(key, int)
        got = found["D"][key] if is_row else found[key]
        want = np.asarray(value).astype(np.uint32 if is_row else bool)
        before = given.before[key] if is_row else lanes({"P0": 0x5A5A5A5A, "P1": 0xA5A5A5A5}[key])
        bad = got != np.where(on, want, before)
        wrong += [(key, int(n), hex(int(got[n])), hex(int(want[n]))) for n in np.flatnonzero(bad)]
    return wrong


def test_every_handler_has_a_reference():
    assert set(lane_references.REFERENCES) == set(HANDLERS) - OTHERS


@pytest.mark.parametrize("name", sorted(set(HANDLERS) - OTHERS))
def test_handler(name):
    _, table = vectors.handlers()
    address, machine = int(table[vectors.NUMBERS[name]]), Machine()
    for given in cases(lane_references.GIVEN[name], CASES):
        assert not differences(machine, address, name, given)
