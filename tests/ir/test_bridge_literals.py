"""Numbers and strings keep their bits over the bridge and back, whatever their type and value."""

import math
import struct

import numpy as np
import pytest
from bridge_stages import over_and_back
from bridge_text import module_of, ops_named, shared_context
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, TensorType, f32

from tileprobe.errors import TileProbeError
from tileprobe.ir.accessors import constant_of, constant_value, str_attr
from tileprobe.ir.bridge import to_xdsl
from tileprobe.ir.literals import dense_bytes, element_type, normalise_dense
from tileprobe.ir.locations import escape, unescape
from tileprobe.ir.writer import attribute_text

FLOAT_BITS = {
    "f64": 64,
    "f32": 32,
    "f16": 16,
    "bf16": 16,
    "f8E4M3FN": 8,
    "f8E5M2": 8,
    "f8E4M3FNUZ": 8,
    "f8E5M2FNUZ": 8,
}
INTEGERS = [1, 8, 16, 32, 64]
floats = st.sampled_from(sorted(FLOAT_BITS)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(_bits(FLOAT_BITS[kind]), min_size=1, max_size=6))
)
integers = st.sampled_from(INTEGERS).flatmap(
    lambda width: st.tuples(st.just(width), st.lists(st.integers(0, 2**width - 1), min_size=1, max_size=6))
)
few = settings(max_examples=60, deadline=None)


def _bits(width):
    """Bit patterns of which many are zeros, infinities, NaNs and denormals."""
    everything = st.integers(0, 2**width - 1)
    ends = st.sampled_from([0, 1, 2 ** (width - 1), 2 ** (width - 1) + 1, 2**width - 1, 2 ** (width - 1) - 1])
    exponent = {64: 0x7FF << 52, 32: 0x7F800000, 16: 0x7C00, 8: 0x7C}[width]
    return st.one_of(everything, ends, everything.map(lambda bits: bits | exponent), st.just(exponent))


def _only_constant(module):
    (op,) = ops_named(to_xdsl(module), "arith.constant")
    return constant_of(op)


@few
@given(floats)
def test_dense_list_of_floats(case):
    kind, patterns = case
    literals = ", ".join(f"0x{bits:0{FLOAT_BITS[kind] // 4}X}" for bits in patterns)
    module = module_of(f"%0 = arith.constant dense<[{literals}]> : tensor<{len(patterns)}x{kind}>")
    constant = _only_constant(module)
    assert constant.element == kind
    assert constant.bits_array().tolist() == patterns
    over_and_back(module, shared_context())


@few
@given(floats)
def test_dense_splat_of_floats(case):
    kind, (bits, *_) = case
    literal = f"0x{bits:0{FLOAT_BITS[kind] // 4}X}"
    module = module_of(f"%0 = arith.constant dense<{literal}> : tensor<64x32x{kind}>")
    constant = _only_constant(module)
    assert constant.splat
    assert constant.bits == bits
    assert constant.shape == (64, 32)
    over_and_back(module, shared_context())


@few
@given(floats)
def test_scalar_float(case):
    kind, (bits, *_) = case
    module = module_of(f"%0 = arith.constant 0x{bits:0{FLOAT_BITS[kind] // 4}X} : {kind}")
    constant = _only_constant(module)
    assert (constant.element, constant.shape, constant.bits) == (kind, None, bits)
    over_and_back(module, shared_context())


@few
@given(integers)
def test_integers(case):
    width, patterns = case
    signed = [p - (1 << width) if p >> (width - 1) and width > 1 else p for p in patterns]
    texts = [("false", "true")[p] if width == 1 else str(p) for p in signed]
    scalar = module_of(f"%0 = arith.constant {texts[0]}{'' if width == 1 else f' : i{width}'}")
    dense = module_of(f"%0 = arith.constant dense<[{', '.join(texts)}]> : tensor<{len(texts)}xi{width}>")
    splat = module_of(f"%0 = arith.constant dense<{texts[0]}> : tensor<4096xi{width}>")
    assert _only_constant(scalar).scalar() == signed[0]
    assert _only_constant(dense).array().tolist() == signed
    assert _only_constant(splat).scalar() == signed[0]
    assert _only_constant(splat).bits == patterns[0]
    for module in (scalar, dense, splat):
        over_and_back(module, shared_context())


@few
@given(st.text(max_size=40))
def test_strings(text):
    module = module_of(f'tt.print "{escape(text)}" {{hex = false, isSigned = array<i32>}}')
    (op,) = ops_named(to_xdsl(module), "tt.print")
    assert str_attr(op, "prefix") == text
    over_and_back(module, shared_context())


@given(st.text())
def test_escaping_is_undone(text):
    assert unescape(escape(text)) == text


@pytest.mark.parametrize(
    ("literal", "kind", "expected"),
    [
        ("0xFF800000", "f32", -math.inf),
        ("0xFC00", "f16", -math.inf),
        ("0xFF80", "bf16", -math.inf),
        ("0xFC", "f8E5M2", -math.inf),
        ("0x7E", "f8E4M3FN", 448.0),
        ("1.000000e-01", "f32", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("-0.000000e+00", "bf16", -0.0),
    ],
)
def test_splat_values(literal, kind, expected):
    module = module_of(f"%0 = arith.constant dense<{literal}> : tensor<128x{kind}>")
    (op,) = ops_named(to_xdsl(module), "arith.constant")
    element, value = constant_value(op)
    assert element == kind
    assert value == expected
    assert math.copysign(1, value) == math.copysign(1, expected)


def test_large_list_is_printed_as_a_hex_string_and_kept():
    values = np.arange(200, dtype=np.float32) / 7
    literals = ", ".join(f"0x{bits:08X}" for bits in values.view(np.uint32))
    module = module_of(f"%0 = arith.constant dense<[{literals}]> : tensor<200xf32>")
    np.testing.assert_array_equal(_only_constant(module).array(), values)
    over_and_back(module, shared_context())


def test_large_list_of_booleans():
    values = [(7 * i) % 3 == 0 for i in range(203)]
    literals = ", ".join(str(value).lower() for value in values)
    module = module_of(f"%0 = arith.constant dense<[{literals}]> : tensor<203xi1>")
    assert _only_constant(module).array().tolist() == values
    over_and_back(module, shared_context())


def test_dense_matrix_keeps_its_shape():
    module = module_of("%0 = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>")
    np.testing.assert_array_equal(_only_constant(module).array(), [[1, 2, 3], [4, 5, 6]])
    over_and_back(module, shared_context())


def test_dense_inside_a_string_is_left_alone():
    text = '{a = "dense<0x1> : tensor<4xf32>", b = dense<1> : tensor<4xi8>}'
    assert normalise_dense(text) == '{a = "dense<0x1> : tensor<4xf32>", b = dense<"0x01"> : tensor<4xi8>}'


def test_attribute_made_in_python_is_written_exactly():
    assert attribute_text(FloatAttr(math.inf, f32)) == "0x7F800000 : f32"
    assert attribute_text(FloatAttr(0.1, f32)) == "0x3DCCCCCD : f32"
    dense = DenseIntOrFPElementsAttr.from_list(TensorType(f32, [2]), [0.1, -math.inf])
    assert attribute_text(dense) == "dense<[0x3DCCCCCD, 0xFF800000]> : tensor<2xf32>"


def test_unknown_element_type():
    with pytest.raises(TileProbeError, match="f7"):
        element_type("f7E2M4")


def test_bytes_of_a_splat_are_one_element():
    assert dense_bytes("0x7FC1", element_type("bf16")) == b"\xc1\x7f"
