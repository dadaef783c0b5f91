"""The fuzzer finds what is planted: a wrong operation, an access out of bounds, a crash, a hang."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest
from fuzz.case import Case, case_of, contents
from fuzz.edits import edits, pruned
from fuzz.generate import generate
from fuzz.generate_values import binary, constant
from fuzz.judge import Judge, compare
from fuzz.memory import JUNK, Guarded
from fuzz.ops import make
from fuzz.program import Assign, Do, IllTyped, Program, Scalar, Tensor, all_nodes
from fuzz.render import render
from fuzz.script import script
from fuzz.shrink import shrink

HEADER = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
# What the child imports before anything else: `x ^ y` becomes `x | y`.
PLANTED = """
from tileprobe.targets.cpu.codegen import elementwise
elementwise._INT_BINARY["xori"] = lambda b, x, y: b.or_(x, y)
"""


def tensor(name, dtype="int32", size=64, values="any"):
    return Tensor(name, dtype, size, values, None)


def case(body, *arguments):
    names = ", ".join(a.name for a in arguments)
    return Case(f"{HEADER}def kernel({names}):\n    {body}\n", arguments, 1, 3)


@pytest.fixture(scope="module")
def judge():
    made = Judge(("native",), 20)
    yield made
    made.close()


def test_a_seed_is_a_kernel_and_always_the_same():
    assert [render(generate(s)) for s in range(40)] == [render(generate(s)) for s in range(40)]


def test_all_productions_and_types_occur():
    trees = [generate(seed) for seed in range(400)]
    ops = {node.op for tree in trees for node in all_nodes(tree)}
    dtypes = {a.dtype for tree in trees for a in tree.tensors()}
    from fuzz.ops import OPS
    from fuzz.types import TYPES

    assert ops >= set(OPS)
    assert dtypes >= set(TYPES) - {"float8e4nv"}


def test_same_kernel_same_result(judge):
    right = case(
        "tl.store(o + tl.arange(0, 16), tl.load(p + tl.arange(0, 16)) * 3)", tensor("p"), tensor("o")
    )
    assert judge.judge(right).kind == "same"


def test_undefined_kernels_are_refused(judge):
    outside = case("tl.store(o + tl.arange(0, 128), 1)", tensor("o"))
    twice = case("tl.store(o + tl.arange(0, 16) // 2, tl.arange(0, 16))", tensor("o"))
    zero = case("tl.store(o + n, tl.arange(0, 1) // n)", tensor("o"), Scalar("n", 0))
    assert [judge.judge(c).kind for c in (outside, twice, zero)] == ["refused"] * 3


def test_reads_beyond_a_tensor_kill_the_worker_and_are_attributed(judge):
    # The oracle refuses it first, so the target is asked directly.
    wild = case("tl.store(o, tl.load(o + (1 << 40)))", tensor("o"))
    worker = judge._targets["native"]
    assert worker.ask("run", wild, True) == ("crash", "SIGSEGV")
    beside = case("tl.store(o + 64, 1)", tensor("o"))
    assert worker.ask("run", beside, False)[0] == "out of bounds"
    assert worker.ask("run", beside, True)[0] == "crash"
    assert judge.judge(case("tl.store(o, 1)", tensor("o"))).kind == "same"


def test_a_hang_is_a_timeout():
    judge = Judge(("native",), 1)
    forever = case("while tl.load(o) == tl.load(o):\n        tl.store(o, 1)", tensor("o"))
    assert judge._targets["native"].ask("run", forever, True)[0] == "timeout"
    judge.close()


def test_compile_errors_are_findings(judge):
    inline = "tl.store(o, tl.inline_asm_elementwise('mov', '=r,r', [tl.load(o)], tl.int32, True, 1))"
    assert judge._targets["native"].ask("run", case(inline, tensor("o")), True)[0] == "compile error"


def test_guards_show_damage():
    bits = np.arange(5, dtype=np.int32)
    for at_end in (True, False):
        memory = Guarded(bits, "int32", at_end)
        assert not memory.damaged()
        assert (memory.bits == bits).all()
        next(part for part in memory._slack if len(part))[0] = JUNK ^ 1
        assert memory.damaged()


def xor_program():
    """Much that is right around `v ^ 5`."""
    index = make("arange", n=16, range=(0, 15))
    pointer = lambda name: make("var", name=name, dtype="*int32", shape=(), range=(0, 63))
    loaded = make("load", make("addptr", pointer("p"), index), first=1)
    v = lambda: make("var", name="v", dtype="int32", shape=(16,))
    out = binary("+", binary("^", v(), constant(5, "int32")), binary("*", v(), constant(3, "int32")))
    body = (
        Assign(("v",), loaded),
        Assign(("w",), binary("-", v(), constant(2, "int32"))),
        Do(make("store", make("addptr", pointer("p"), index), v(), first=2)),
        Do(make("store", make("addptr", pointer("o"), index), out, first=2)),
    )
    return Program(3, 1, (tensor("p"), tensor("o"), Scalar("n", 7)), body)


def test_a_planted_miscompile_is_found_and_shrunk(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(PLANTED)
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    judge = Judge(("native",), 20, {"PYTHONPATH": path})
    try:
        verdict = judge.judge(case_of(xor_program()))
        assert verdict.kind == "wrong value"
        assert "Code generation is wrong" in judge.blame(case_of(xor_program()), "native")
        small = shrink(xor_program(), lambda p: judge.judge(case_of(p)).kind == "wrong value", 60)
        text = render(small)
        assert "^" in text
        assert "*" not in text
        assert len(small.body) <= 2
        again = case_of(small)
        shown = script(again, judge.judge(again), judge.expected(again))
        compile(shown, "script", "exec")
        assert text.split("@triton.jit")[1].strip() in shown
    finally:
        judge.close()


def test_the_same_program_is_right_without_the_plant(judge):
    assert judge.judge(case_of(xor_program())).kind == "same"


@pytest.mark.parametrize("seed", range(12))
def test_every_edit_renders(seed):
    program = generate(seed)
    texts = set()
    for edit in edits(program):
        try:
            texts.add(render(pruned(edit())))
        except IllTyped:
            continue
    assert len(texts) > 3


def test_comparison_is_by_value():
    one = case("pass", tensor("f", "float32", 3))
    expected = {"f": np.array([0.0, np.nan, 1.0], np.float32)}
    assert not compare(one, expected, {"f": np.array([-0.0, np.nan, 1.0], np.float32)})
    assert compare(one, expected, {"f": np.array([0.0, np.nan, 1.0000001], np.float32)})


def test_contents_depend_on_nothing_but_the_seed():
    one = case("pass", tensor("p"))
    assert (contents(one, tensor("p")) == contents(one, tensor("p"))).all()
