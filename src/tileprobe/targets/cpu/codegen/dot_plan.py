"""Choice of blocking and operand layouts for one dot.

In: the shape, the element types and the machine's vector registers. Out: a `DotPlan`, which says how the
operands must lie in scratch and in which type, and which micro-kernel will run.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from tileprobe.errors import TileProbeError
from tileprobe.targets.cpu.codegen.dot_layout import Panel

# A block of A that is reused by every panel of B stays in this share of the second-level cache (bytes).
# 128 KB is half of the smallest L2 still common (256 KB on client cores of the AVX2 era).
_A_BLOCK_BYTES = 128 * 1024
# Depth of a block of K: a 16-column f32 panel of B is then 16 KB, half of a 32 KB first-level cache. Sums of
# that many products of 8-bit integers (unsigned: 256 * 255 * 255 < 2 ** 24) are also exact in f32.
_K_BLOCK = 256
_K_BLOCK_LEAST = 64

_LLVM_TYPES: dict[str, ir.Type] = {
    "f32": ir.FloatType(),
    "f64": ir.DoubleType(),
    "bf16": ir.IntType(16),
    "i8": ir.IntType(8),
    "i32": ir.IntType(32),
    "i64": ir.IntType(64),
}
_BYTES = {"f32": 4, "f64": 8, "bf16": 2, "i8": 1, "i32": 4, "i64": 8}
# What a 32-bit lane of a sum takes in one instruction: two products of bf16 (vdpbf16ps), four of i8 (vpdpbusd).
_GROUPS = {"bf16": 2, "i8": 4}
_GROUPED_BITS = 32
# The narrowest vector these instructions come in has this many sums.
_GROUPED_LANES = 4


@dataclass(frozen=True)
class DotPlan:
    """How C[m, n] (+)= A[m, k] @ B[k, n] will run.

    `a_layout` and `b_layout` are in elements of the type `compute`; C is dense, row-major, of the type `acc`.
    No padding is ever needed. `kind` is "outer" (vectors along n) or "inner" (vectors along k, for a C
    narrower than a vector).
    """

    m: int
    n: int
    k: int
    compute: str
    acc: str
    kind: str
    lanes: int
    mr: int
    nr: int
    kc: int
    a_layout: Panel
    b_layout: Panel

    pad = False

    @property
    def a_elems(self) -> int:
        return self.a_layout.elems

    @property
    def b_elems(self) -> int:
        return self.b_layout.elems

    @property
    def c_elems(self) -> int:
        return self.m * self.n

    @property
    def blocks(self) -> int:
        """Full register blocks in one block of K; at least 1, for the planner never exceeds m and n."""
        return (self.m // self.mr) * (self.n // self.nr)

    @property
    def compute_type(self) -> ir.Type:
        return _LLVM_TYPES[self.compute]

    @property
    def acc_type(self) -> ir.Type:
        return _LLVM_TYPES[self.acc]

    @property
    def group(self) -> int:
        """Steps of K that one instruction takes."""
        return _GROUPS.get(self.compute, 1)

    @property
    def sum_type(self) -> ir.Type:
        """Sums are kept in the type that is multiplied, but where an instruction adds up several products."""
        return self.compute_type if self.group == 1 else self.acc_type

    @property
    def compute_bytes(self) -> int:
        return _BYTES[self.compute]

    @property
    def acc_bytes(self) -> int:
        return _BYTES[self.acc]

    @property
    def name(self) -> str:
        """Distinct for distinct plans: names the function in the module."""
        return (
            f"dot.{self.compute}.{self.acc}.{self.m}x{self.n}x{self.k}"
            f".{self.kind}.{self.mr}x{self.nr}x{self.kc}.v{self.lanes}"
        )


def plan(
    m: int,
    n: int,
    k: int,
    a_dtype: str,
    b_dtype: str,
    acc_dtype: str,
    vector_bytes: int,
    registers: int,
    grouped: frozenset[str] = frozenset(),
) -> DotPlan:
    """Plan a dot of an [m, k] by a [k, n] tile on a machine with `registers` vectors of `vector_bytes`.

    Types are MLIR's names (f16, bf16, f32, f64, i8, f8E5M2, ...) or Triton's (fp16, int8, ...).
    An accumulator narrower than f32 becomes f32: the caller rounds C itself. `grouped` names the types of which
    the machine adds up several products at once (`bf16`, `i8`).
    """
    if min(m, n, k) < 1:
        raise TileProbeError(f"a dot needs sizes of at least 1, found {m}x{n}x{k}")
    compute, acc = _types(a_dtype, b_dtype, acc_dtype)
    lanes = max(1, vector_bytes // _BYTES[compute])
    # Half of the registers hold sums; the rest is for a row of B, the broadcasts of A and the scheduler.
    sums = registers // 2
    if n < lanes <= k:
        return _inner(m, n, k, compute, acc, lanes, sums)
    narrow = _grouped_type(a_dtype, b_dtype, acc)
    if narrow in grouped and k % _GROUPS[narrow] == 0 and n % _GROUPED_LANES == 0:
        compute = narrow
    return _outer(m, n, k, compute, acc, lanes, sums)


def _outer(m: int, n: int, k: int, compute: str, acc: str, lanes: int, sums: int) -> DotPlan:
    columns = -(-n // lanes)
    # Two vectors a row and as many rows as the sums allow; wider blocks only when there are too few rows
    # to keep the multiply-add units busy.
    rows = min(m, sums // min(columns, 2))
    vectors = max(1, min(columns, sums // rows))
    nr = min(n, vectors * lanes)
    kc = min(k, _k_block(m, compute))
    # A in rows rather than in panels of mr rows: the kernel is as fast (within 1 %, 3 % at K = 1024), and
    # packing a row-major source is a plain copy.
    return DotPlan(
        m, n, k, compute, acc, "outer", lanes, rows, nr, kc, Panel((m, k), 1, kc), Panel((k, n), 1, nr)
    )


def _inner(m: int, n: int, k: int, compute: str, acc: str, lanes: int, sums: int) -> DotPlan:
    rows = max(1, min(m, sums // n))
    kc = min(k, _K_BLOCK * lanes) if acc == compute else min(k, _K_BLOCK)
    return DotPlan(
        m, n, k, compute, acc, "inner", lanes, rows, n, kc, Panel((m, k), 1, kc), Panel((k, n), 0, kc)
    )


def _k_block(m: int, compute: str) -> int:
    depth = _K_BLOCK
    while depth > _K_BLOCK_LEAST and m * depth * _BYTES[compute] > _A_BLOCK_BYTES:
        depth //= 2
    return depth


def _types(a: str, b: str, acc: str) -> tuple[str, str]:
    kinds = {_kind(a), _kind(b), _kind(acc)}
    if len(kinds) > 1:
        raise TileProbeError(f"dot cannot mix integers and floats: {a} x {b} into {acc}")
    if kinds == {"float"}:
        double = any(_bits(t) == 64 for t in (a, b, acc))
        return ("f64", "f64") if double else ("f32", "f32")
    stored = "i64" if _bits(acc) == 64 else "i32"
    # Products of 8-bit integers add up exactly in f32 within a block of K, and fused multiply-adds are
    # faster than 32-bit integer multiplies (96 against 74 G operations/s on one Zen 3 core).
    narrow = _bits(a) <= 8 and _bits(b) <= 8
    return ("f32" if narrow else stored), stored


def _grouped_type(a: str, b: str, acc: str) -> str:
    """The type whose products could be added up several at a time; empty where there is none.

    The 8-bit floats are bf16 exactly: it has more bits of each part than any of them.
    """
    if acc == "f32" and all(t == "bf16" or (_kind(t) == "float" and _bits(t) == 8) for t in (a, b)):
        return "bf16"
    if acc == "i32" and all(t in ("i8", "int8") for t in (a, b)):
        return "i8"
    return ""


def _kind(dtype: str) -> str:
    if dtype.startswith(("f", "bf", "tf")):
        return "float"
    if dtype.startswith(("i", "u", "s")):
        return "int"
    raise TileProbeError(f"dot does not know the element type {dtype!r}")


def _bits(dtype: str) -> int:
    if dtype.startswith(("f8", "fp8", "float8")):
        return 8
    digits = "".join(c for c in dtype if c.isdigit())
    return int(digits) if digits else 32
