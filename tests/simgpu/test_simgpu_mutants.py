"""Handlers with one operation changed: their tests must notice. A few changes of some; `mutation.py` tries all."""

from apart import apart
from handler_mutants import JUDGED, mutants

SOME = ("iadd3_carry", "isetp_ex", "fadd_ftz", "imad_hi_s", "shf_l_u64_hi", "dsetp", "mufu_sqrt", "imma_uu")


def test_changed_handlers_are_noticed():
    for name, (count, alive) in apart("handler_mutants", "several", SOME, 8).items():
        assert count >= 4, name
        assert not [what for what in alive if not what.endswith("(?)")], name


def test_every_handler_can_be_changed():
    assert all(name in JUDGED for name in SOME)
    kinds = {what.split(": ")[1] for name in ("fmnmx", "prmt", "imad") for what, _ in mutants(name)}
    assert {"choices exchanged", "another bit", "and to or", "a constant and one"} <= kinds
