"""Handlers with one operation changed: their tests must notice. A few changes of some; `mutation.py` tries all."""

import pytest
from handler_mutants import JUDGED, mutants, survivors

SOME = ("iadd3_carry", "isetp_ex", "fadd_ftz", "imad_hi_s", "shf_l_u64_hi", "dsetp", "mufu_sqrt", "imma_uu")


@pytest.mark.parametrize("name", SOME)
def test_changed_handlers_are_noticed(name):
    count, alive = survivors(name, 8)
    assert count >= 4
    assert not [what for what in alive if not what.endswith("(?)")]


def test_every_handler_can_be_changed():
    assert all(name in JUDGED for name in SOME)
    kinds = {what.split(": ")[1] for name in ("fmnmx", "prmt", "imad") for what, _ in mutants(name)}
    assert {"choices exchanged", "another bit", "and to or", "a constant and one"} <= kinds
