"""Where the time of a stage goes, by the costs of what it does."""

from types import SimpleNamespace

from tileprobe.passes.select import _places


def test_costs_of_several_kinds_at_one_place_add_up():
    here, there = (("k.py", 3),), (("k.py", 4),)
    costs = {("exp", here): 2.0, ("mul", here): 3.0, ("add", there): 1.5}
    how = SimpleNamespace(kinds=lambda op: ["exp"], costs=lambda op: costs)
    assert _places(None, how) == {here: 5.0, there: 1.5}  # type: ignore[arg-type]
