"""Run our passes on a file of IR and print the result: an xdsl-opt with our dialects.

Examples:
  tileprobe opt kernel.mlir -p 'select{kinds=dot},instrument'
  tileprobe opt kernel.mlir -p select,instrument,merge-probes,sample,assign-slots,probe-to-record
  tileprobe opt kernel.ttir -p schedule
  tileprobe opt kernel.tile --target cpu -p select,instrument
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", default="-", help="a file of IR; - or nothing is the standard input"
    )
    parser.add_argument(
        "--target",
        metavar="NAME",
        help="read the IR as this target does; the same as structure=... in each pass",
    )
    parser.add_argument("-p", "--passes", default="", help="the pipeline, as in the examples")
    parser.add_argument("-o", "--output", help="write to this file and not to the terminal")
    parser.add_argument("--list", action="store_true", help="list the passes and their options")
    parser.add_argument("--generic", action="store_true", help="print ops in generic form")
    parser.add_argument("--between", action="store_true", help="print the IR before each pass, too")


def run(args: argparse.Namespace) -> int:
    from tileprobe.files import check_writable, write_file
    from tileprobe.ir.registry import context
    from tileprobe.passes import available

    if args.list:
        _list(available())
        return 0
    if args.output:
        check_writable(args.output)
    with _explained(f"cannot read the passes {args.passes!r}"):
        steps = _steps(args)
    ctx = context()
    module = read_module(args.file, ctx)
    for step in steps:
        if args.between:
            with _explained(f"{args.file}: what comes before {step.name} cannot be printed"):
                before = _text(module, args.generic)
            _show(f"// before {step.name}\n{before}")
        with _explained(f"{args.file}: the pass {step.name} cannot take it"):
            step.apply(ctx, module)
        with _explained(f"{args.file}: the pass {step.name} leaves IR that is wrong"):
            module.verify()
    with _explained(f"{args.file}: the result cannot be printed"):
        result = _text(module, args.generic)
    if args.output:
        write_file(args.output, result + "\n")
        return 0
    _show(result)
    return 0


def read_module(file: str, ctx: Any = None) -> Any:
    """The module of a file of IR (- for the standard input), verified."""
    from tileprobe.ir.registry import context

    with _explained(f"{file}: cannot be read as IR"):
        module = _module(ctx or context(), _source(file), file)
        module.verify()
    return module


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """IR comes from users and other programs: whatever is raised on its way says that something is wrong with it."""
    from tileprobe.errors import TileProbeError

    try:
        yield
    except TileProbeError:
        raise
    except RecursionError as error:
        raise TileProbeError(f"{what}: it is nested too deeply") from error
    except Exception as error:
        if os.environ.get("TILEPROBE_DEBUG") == "opt":
            raise
        kind = (
            "" if type(error).__name__ in ("ParseError", "VerifyException") else f"{type(error).__name__}: "
        )
        raise TileProbeError(f"{what}: {kind}{error}") from error


def _source(name: str) -> str:
    from tileprobe.errors import TileProbeError

    try:
        data = sys.stdin.read() if name == "-" else Path(name).read_bytes().decode()
    except OSError as error:
        raise TileProbeError(f"cannot read {name}: {error.strerror}") from error
    except ValueError as error:  # a name with a zero byte is one, too
        raise TileProbeError(f"{name} is no text in UTF-8, which IR is: {error}") from error
    return data


def _module(ctx: Any, text: str, name: str) -> Any:
    from xdsl.parser import Parser

    from tileprobe.ir.precheck import check_text

    check_text(text, name)
    return _triton_module(text) if _is_triton(text) else Parser(ctx, text, name).parse_module()


def _steps(args: argparse.Namespace) -> list[Any]:
    """The passes, each with the structure of the target where it names none of its own."""
    from dataclasses import fields, replace

    from tileprobe.passes import pipeline
    from tileprobe.targets.catalog import find

    steps = list(pipeline(args.passes).passes) if args.passes else []
    if args.target is None:
        return steps
    how = find(args.target)[0].structure
    portable = [
        any(f.name == "structure" and getattr(s, f.name) == f.default for f in fields(s)) for s in steps
    ]
    return [replace(step, structure=how) if yes else step for step, yes in zip(steps, portable)]


def _is_triton(text: str) -> bool:
    """IR on tiles, as Triton prints it; what is scheduled has scalars and buffers only."""
    return "tt.func" in text and "tensor<" in text


def _triton_module(text: str):
    from triton._C.libtriton import ir

    from tileprobe.ir.bridge import parse_triton, to_xdsl

    triton_context = ir.context()
    ir.load_dialects(triton_context)
    return to_xdsl(parse_triton(text, triton_context))


def _show(text: str) -> None:
    from tileprobe.errors import TileProbeError

    try:
        print(text)
    except UnicodeEncodeError as error:
        raise TileProbeError(
            f"the terminal cannot show {text[error.start]!r}; write to a file with -o"
        ) from error


def _text(module, generic: bool) -> str:
    from io import StringIO

    from xdsl.printer import Printer

    out = StringIO()
    Printer(out, print_generic_format=generic).print_op(module)
    return out.getvalue()


def _list(known) -> None:
    from xdsl.passes import get_pass_option_infos

    for name in sorted(known):
        kind = known[name]()
        print(f"{name}: {(kind.__doc__ or '').strip().splitlines()[0]}")
        for option in get_pass_option_infos(kind):
            if option.name != "name":
                print(f"    {option.name}={option.default_value}  ({option.expected_type})")
