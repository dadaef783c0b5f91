"""Questions about the ops and types of a bridged module."""

import pytest
from bridge_text import module_of, ops_named, triton_module
from xdsl.dialects.builtin import f32

from tileprobe.errors import TileProbeError
from tileprobe.ir import accessors
from tileprobe.ir.bridge import to_xdsl
from tileprobe.ir.reader import parse_attribute, parse_type


def _op(name, *lines, arguments=""):
    return ops_named(to_xdsl(module_of(*lines, arguments=arguments)), name)[0]


@pytest.fixture(scope="module")
def load():
    return _op(
        "tt.load",
        '%0 = "tt.load"(%p, %m) <{isVolatile = true, operandSegmentSizes = array<i32: 1, 1, 0>}>'
        " : (tensor<8x!tt.ptr<f16>>, tensor<8xi1>) -> tensor<8xf16>",
        arguments="%p: tensor<8x!tt.ptr<f16>>, %m: tensor<8xi1>",
    )


def test_attributes_of_an_op(load):
    assert accessors.op_name(load) == "tt.load"
    assert accessors.bool_attr(load, "isVolatile") is True
    assert accessors.int_attr(load, "isVolatile") == 1
    assert accessors.int_list_attr(load, "operandSegmentSizes") == [1, 1, 0]
    assert accessors.attr(load, "nothing") is None
    assert accessors.attr_value(load, "nothing", 3) == 3
    assert "op_name__" not in accessors.attributes(load)


def test_operand_groups(load):
    pointer, mask = load.operands
    assert accessors.operand_groups(load) == [[pointer], [mask], []]


def test_missing_attributes_are_named(load):
    with pytest.raises(TileProbeError, match=r"tt\.load has no integer attribute 'axis'"):
        accessors.int_attr(load, "axis")
    with pytest.raises(TileProbeError, match=r"tt\.load has no string attribute 'isVolatile'"):
        accessors.str_attr(load, "isVolatile")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("16 : i32", 16),
        ("-1 : i64", -1),
        ("true", True),
        ("2.5 : f32", 2.5),
        ('"text"', "text"),
        ("unit", True),
        ("@name", "name"),
        ("[1 : i32, [2 : i32]]", [1, [2]]),
        ("{a = 1 : i8}", {"a": 1}),
        ("array<i32: 1, 0>", [1, 0]),
        ("array<i1: true, false>", [True, False]),
        ("#arith.fastmath<fast>", "fast"),
    ],
)
def test_python_values(text, expected):
    value = accessors.value_of(parse_attribute(text))
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "shape", "element", "pointee"),
    [
        ("i1", (), "i1", None),
        ("index", (), "index", None),
        ("bf16", (), "bf16", None),
        ("tensor<4x8xf8E4M3FN>", (4, 8), "f8E4M3FN", None),
        ("tensor<f32>", (), "f32", None),
        ("!tt.ptr<f16>", (), "ptr", "f16"),
        ("!tt.ptr<i8, 3>", (), "ptr", "i8"),
        ("!tt.ptr<!tt.ptr<f32>>", (), "ptr", "ptr<f32>"),
        ("tensor<16x!tt.ptr<f64>>", (16,), "ptr", "f64"),
    ],
)
def test_types(text, shape, element, pointee):
    kind = parse_type(text)
    assert accessors.shape(kind) == shape
    assert accessors.elem_type(kind) == element
    assert accessors.is_pointer(kind) == (pointee is not None)
    assert accessors.is_tensor(kind) == text.startswith("tensor")
    if pointee is not None:
        assert accessors.pointee(kind) == pointee


def test_pointee_of_a_number():
    with pytest.raises(TileProbeError, match="expected a pointer type, found f32"):
        accessors.pointee(f32)


def test_descriptor_block():
    block = accessors.descriptor_block(parse_type("!tt.tensordesc<64x32xf16>"))
    assert (block.shape, block.element) == ((64, 32), "f16")
    assert accessors.descriptor_block(f32) is None
    assert accessors.dialect_type(parse_type("!tt.ptr<f32>")) == ("tt.ptr", "f32")


def test_argument_attributes():
    text = "module {\ntt.func @f(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) {\ntt.return\n}\n}\n"
    (function,) = ops_named(to_xdsl(triton_module(text)), "tt.func")
    assert accessors.attr_value(function, "arg_attrs") == [{"tt.divisibility": 16}, {}]


def test_constant_of_another_op(load):
    with pytest.raises(TileProbeError, match=r"expected an arith\.constant, found tt\.load"):
        accessors.constant_of(load)
