"""Triton modules from text, for tests that need IR no kernel gives."""

from functools import lru_cache

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from tileprobe.ir.accessors import op_name
from tileprobe.ir.bridge import parse_triton


@lru_cache(maxsize=1)
def shared_context():
    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("cuda", 90, 32)).load_dialects(context)
    return context


def triton_module(text: str):
    return parse_triton(text, shared_context())


def module_of(*lines: str, arguments: str = ""):
    """A module with one function whose body is `lines`."""
    body = "\n    ".join(lines)
    return triton_module(
        f"module {{\n  tt.func public @f({arguments}) {{\n    {body}\n    tt.return\n  }}\n}}\n"
    )


def ops_named(module, name: str):
    return [op for op in module.walk() if op_name(op) == name]
