"""The source text of a program: the kernel, and the functions it names."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz import tile_ops
from fuzz.ops import OPS
from fuzz.program import (
    Assign,
    Do,
    Expr,
    For,
    Function,
    If,
    Program,
    Scalar,
    Statement,
    all_nodes,
    expressions,
    nodes,
    walk,
)

HEADER = "import triton\nimport triton.language as tl\n"


def text(expression: Expr) -> str:
    return OPS[expression.op].text(expression, [text(arg) for arg in expression.args])


def _indent(lines: Iterator[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _block(body: tuple[Statement, ...]) -> Iterator[str]:
    if not body:
        yield "pass"
    for statement in body:
        yield from _statement(statement)


def _copied(value: Expr) -> str:
    """A value to assign; never another variable itself, which Triton's front end takes for one and the same
    (docs/upstream.md). The choice is gone again after canonicalisation."""
    name = text(value)
    return f"tl.where(True, {name}, {name})" if value.op == "var" else name


def _statement(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Assign):
        yield f"{', '.join(statement.targets)} = {_copied(statement.value)}"
    elif isinstance(statement, Do):
        yield text(statement.value)
    elif isinstance(statement, For):
        yield from _loop(statement)
    elif isinstance(statement, If):
        yield f"if {text(statement.condition)}:"
        yield from _indent(_block(statement.body))
        if statement.orelse:
            yield "else:"
            yield from _indent(_block(statement.orelse))
    else:
        yield f"if {text(statement.condition)}:"
        yield "    return"


def _loop(loop: For) -> Iterator[str]:
    count = text(loop.count) if isinstance(loop.count, Expr) else str(loop.count)
    if loop.how == "while":
        yield f"{loop.name} = tl.full((), 0, tl.int32)"
        yield f"while {loop.name} < {count}:"
        yield from _indent(_block(loop.body))
        yield f"    {loop.name} += 1"
        return
    bounds = count
    if (loop.first, loop.step) != (0, 1):
        bounds = f"{loop.first}, {loop.first} + {count} * {loop.step}, {loop.step}"
    yield f"for {loop.name}_ in {loop.how}({bounds}):"
    if loop.name in {e.attrs.get("name") for s in walk(loop.body) for x in expressions(s) for e in nodes(x)}:
        # The interpreter counts in Python integers, the compiler in int32 tensors; made one type here.
        yield f"    {loop.name} = tl.full((), {loop.name}_, tl.int32)"
    yield from _indent(_block(loop.body))


def _function(function: Function) -> Iterator[str]:
    yield "@triton.jit(noinline=True)" if function.noinline else "@triton.jit"
    yield f"def {function.name}({', '.join(name for name, _, _ in function.parameters)}):"
    yield f"    return {text(function.result)}"


def _kernel(program: Program) -> Iterator[str]:
    yield "@triton.jit"
    yield f"def kernel({', '.join(a.name for a in program.arguments)}):"
    lines = []
    for argument in program.arguments:
        if isinstance(argument, Scalar):
            # A 1 is a constant to the compiler and has no methods.
            lines.append(f"{argument.name} = tl.full((), {argument.name}, tl.int32)")
        elif argument.apart and program.grid > 1:
            lines.append(f"{argument.name} = {argument.name} + tl.program_id(0) * {argument.size}")
    lines += _block(program.body) if program.body or not lines else ()
    yield from _indent(iter(lines))


def render(program: Program) -> str:
    used = {node.attrs.get("function") for node in all_nodes(program)}
    called = {node.attrs["name"] for node in all_nodes(program) if node.op == "call"}
    parts = [HEADER]
    parts += [f"@triton.jit\n{code}\n" for name, code in tile_ops.COMBINES.items() if name in used]
    parts += ["\n".join(_function(f)) + "\n" for f in program.functions if f.name in called]
    parts.append("\n".join(_kernel(program)) + "\n")
    return "\n\n".join(parts)
