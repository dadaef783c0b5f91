"""Where the time of a stage goes, by the costs of what it does."""

from types import SimpleNamespace

from pass_texts import after, program

from tileprobe.ir.accessors import attr_value
from tileprobe.passes.select import SCOPES, _mark_bare_scopes, _places, _Scope


def test_costs_of_several_kinds_at_one_place_add_up():
    here, there = (("k.py", 3),), (("k.py", 4),)
    costs = {("exp", here): 2.0, ("mul", here): 3.0, ("add", there): 1.5}
    how = SimpleNamespace(kinds=lambda op: ["exp"], costs=lambda op: costs)
    assert _places(None, how) == {here: 5.0, there: 1.5}  # type: ignore[arg-type]


def test_a_scope_without_stages_has_the_arithmetic_in_it_and_no_other():
    text = program(*[f'"my.add"() {{line = {line} : i32}} : () -> ()' for line in (3, 4, 9)])
    kernel = next(iter(after(text, "select").ops))
    how = SimpleNamespace(
        is_arithmetic=lambda op: op.name == "my.add" or attr_value(op, "line") is not None,
        frames=lambda op: (("k.py", attr_value(op, "line")),),
    )
    _mark_bare_scopes(kernel, how, [_Scope("inner", 4, 4), _Scope("outer", 3, 5)])  # type: ignore[arg-type]
    found = {attr_value(op, "line"): attr_value(op, SCOPES) for op in kernel.walk() if how.is_arithmetic(op)}
    assert found == {3: ["outer"], 4: ["outer", "inner"], 9: None}
