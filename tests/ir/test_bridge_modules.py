"""What the bridge makes of a module: structure, names, scopes, aliases; and what it says when it cannot."""

import pytest
from bridge_stages import over_and_back
from bridge_text import module_of, ops_named, shared_context, triton_module
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Region

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import op_name
from tileprobe.ir.bridge import from_xdsl, generic_text, parse_triton, to_xdsl
from tileprobe.ir.reader import op_class, read_generic
from tileprobe.ir.writer import write_generic

ADD = "%0 = arith.addi %a, %a : i32"


def test_reading_leaves_the_module_alone():
    module = module_of(ADD, arguments="%a: i32")
    before = module.str()
    to_xdsl(module)
    assert module.str() == before
    assert module.verify()


def test_structure_and_names():
    module = to_xdsl(module_of(ADD, arguments="%a: i32"))
    assert isinstance(module, ModuleOp)
    assert [op_name(op) for op in module.walk()] == ["builtin.module", "tt.func", "arith.addi", "tt.return"]
    (add,) = ops_named(module, "arith.addi")
    (argument,) = add.parent_block().args
    assert list(add.operands) == [argument, argument]
    assert add.results[0].type == i32


def test_equal_names_mean_equal_classes_in_every_module():
    first = ops_named(to_xdsl(module_of(ADD, arguments="%a: i32")), "arith.addi")[0]
    second = ops_named(to_xdsl(module_of(ADD, arguments="%a: i32")), "arith.addi")[0]
    assert type(first) is type(second) is op_class("arith.addi")


def test_layout_aliases_are_spelled_out():
    layout = "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>"
    module = triton_module(
        f"#b = {layout}\n"
        "#s = #ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], "
        "warpsPerCTA = [1, 4], order = [1, 0]}>}>\n"
        'module attributes {"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32} {\n'
        "tt.func @f(%x: tensor<128xf32, #b>) {\n"
        "%0 = ttg.convert_layout %x : tensor<128xf32, #b> -> tensor<128xf32, #s>\ntt.return\n}\n}\n"
    )
    (convert,) = ops_named(to_xdsl(module), "ttg.convert_layout")
    assert str(convert.operands[0].type) == f"tensor<128xf32, {layout}>"
    assert "parent = #ttg.blocked<{" in str(convert.results[0].type)
    over_and_back(module, shared_context())


def test_blocks_out_of_dominance_order():
    module = module_of(
        "cf.br ^entry",
        "^use:",
        "%1 = arith.addi %0, %0 : i32",
        "cf.br ^end",
        "^entry:",
        "%0 = arith.addi %a, %a : i32",
        "cf.cond_br %c, ^use, ^end",
        "^end:",
        arguments="%a: i32, %c: i1",
    )
    use, definition = ops_named(to_xdsl(module), "arith.addi")
    assert use.operands[0] is definition.results[0]
    over_and_back(module, shared_context())


def test_results_by_number_and_same_names_in_two_functions():
    loop = (
        "%2:2 = scf.for %i = %a to %a step %a iter_args(%x = %a, %y = %a) -> (i32, i32) : i32 {\n"
        "scf.yield %y, %x : i32, i32\n}\n%3 = arith.subi %2#1, %2#0 : i32\ntt.return\n"
    )
    text = "".join(f"tt.func @{name}(%a: i32) {{\n{loop}}}\n" for name in "fg")
    module = triton_module(f"module {{\n{text}}}\n")
    bridged = to_xdsl(module)
    for loop_op, difference in zip(
        ops_named(bridged, "scf.for"), ops_named(bridged, "arith.subi"), strict=True
    ):
        assert list(difference.operands) == [loop_op.results[1], loop_op.results[0]]
    over_and_back(module, shared_context())


def test_a_changed_module_goes_back():
    module = to_xdsl(module_of("%0 = arith.constant 7 : i32", "%1 = arith.addi %0, %0 : i32"))
    (constant,) = ops_named(module, "arith.constant")
    constant.properties["value"] = IntegerAttr(8, i32)
    (add,) = ops_named(module, "arith.addi")
    product = op_class("arith.muli").create(
        operands=add.operands, result_types=[i32], properties=add.properties, location=add.location
    )
    add.parent_block().insert_op_after(product, add)
    text = from_xdsl(module, shared_context()).str_nodebug()
    assert "arith.constant 8 : i32" in text
    assert "arith.muli %c8_i32, %c8_i32" in text


def test_foreign_text_is_refused():
    with pytest.raises(TileProbeError, match="cannot read this line") as caught:
        read_generic("this is no module")
    assert "this is no module" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"builtin.module"() ({\n  "tt.return"() : () -> () loc(unknown)\n',
        '"builtin.module"() ({\n  "a.b"(%x) : (i32) -> () loc(unknown)\n}) : () -> () loc(unknown)',
        '"builtin.module"() ({\n  "a.b"() : () -> (loc(unknown)\n}) : () -> () loc(unknown)',
        '"builtin.module"() ({\n  "a.b"() <{x = }> : () -> () loc(unknown)\n}) : () -> () loc(unknown)',
        '"builtin.module"() ({\n  "a.b"() : () -> () loc(somewhere)\n}) : () -> () loc(unknown)',
        '"builtin.module"() ({\n}) : () -> () loc(unknown)\n{-#\n#-}',
    ],
    ids=["empty", "cut off", "undefined value", "bad types", "bad attribute", "bad location", "resources"],
)
def test_broken_text_is_refused(text):
    with pytest.raises(TileProbeError, match="the bridge"):
        read_generic(text)


def test_module_that_triton_refuses():
    module = to_xdsl(module_of(ADD, arguments="%a: i32"))
    (add,) = ops_named(module, "arith.addi")
    add.properties["overflowFlags"] = IntegerAttr(3, i32)
    with pytest.raises(TileProbeError, match="Triton's parser refused the module") as caught:
        from_xdsl(module, shared_context())
    assert "overflowFlags" in str(caught.value)


def test_value_from_elsewhere_is_refused():
    stray = op_class("test.make").create(result_types=[i32])
    user = op_class("test.use").create(operands=stray.results)
    module = ModuleOp(Region(Block([user])))
    with pytest.raises(TileProbeError, match=r"test\.use uses a value of test\.make"):
        write_generic(module)


def test_module_without_context():
    class Contextless:
        pass

    with pytest.raises(TileProbeError, match="carries no context"):
        to_xdsl(Contextless())


def test_text_that_triton_cannot_parse():
    with pytest.raises(TileProbeError, match="refused"):
        parse_triton("module {", shared_context())


def test_generic_text_ends_with_one_block():
    assert "^bb1" not in generic_text(module_of(ADD, arguments="%a: i32"))
