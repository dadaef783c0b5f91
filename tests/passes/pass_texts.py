"""Kernels written as text, and what passes make of them."""

from xdsl.parser import Parser

from tileprobe.ir.registry import context
from tileprobe.passes import pipeline


def after(text, passes):
    ctx = context()
    module = Parser(ctx, text).parse_module()
    pipeline(passes).apply(ctx, module)
    module.verify()
    return module


def kernel_of(text, passes):
    return next(iter(after(text, passes).ops))


def program(*ops, arguments="%n: i32, %one: i32, %c: i1"):
    return f"func.func @k({arguments}) {{\n" + "\n".join(ops) + "\nfunc.return\n}"


def stage(kinds, lines="", more=""):
    where = f', lines = "a.py:{lines}"' if lines else ""
    return f'"my.stage"() {{kinds = "{kinds}"{where}{more}}} : () -> ()'


def loop(*ops, more="", index="i"):
    body = "\n".join(ops)
    return f"scf.for %{index} = %one to %n step %one : i32 {{\n{body}\n}} {more}"
