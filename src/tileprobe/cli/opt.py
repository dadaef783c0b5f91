"""Run our passes on a file of IR and print the result: an xdsl-opt with our dialects.

Examples:
  tileprobe opt kernel.mlir -p 'select{kinds=dot},instrument'
  tileprobe opt kernel.mlir -p select,instrument,merge-probes,sample,assign-slots,probe-to-record
  tileprobe opt kernel.ttir -p schedule
  tileprobe opt kernel.tile --target cpu -p select,instrument
"""

from __future__ import annotations

import argparse
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
    import sys
    from pathlib import Path

    from xdsl.parser import Parser
    from xdsl.utils.exceptions import ParseError, VerifyException

    from tileprobe.errors import TileProbeError
    from tileprobe.files import write_file
    from tileprobe.ir.registry import context
    from tileprobe.passes import available

    if args.list:
        _list(available())
        return 0
    try:
        text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text()
    except OSError as error:
        raise TileProbeError(f"cannot read {args.file}: {error.strerror}") from error
    ctx = context()
    try:
        module = _triton_module(text) if _is_triton(text) else Parser(ctx, text, args.file).parse_module()
        module.verify()
        for step in _steps(args):
            if args.between:
                print(f"// before {step.name}\n{_text(module, args.generic)}")
            step.apply(ctx, module)
            module.verify()
    except (ParseError, VerifyException) as error:
        raise TileProbeError(f"{args.file}: {error}") from error
    result = _text(module, args.generic)
    if args.output:
        write_file(args.output, result + "\n")
    else:
        print(result)
    return 0


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
