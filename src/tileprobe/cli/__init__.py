"""The `tileprobe` command. One command a file: a module here whose name has no leading underscore is a command.

A command module has a docstring (its first line is the help text), `add_arguments(parser)` and
`run(args) -> int`. It imports what is heavy inside `run`, so that `tileprobe --help` stays fast.
"""

from __future__ import annotations

import argparse
import os
import pkgutil
import sys
from importlib import import_module

from tileprobe import __version__
from tileprobe.cli._say import say
from tileprobe.errors import TileProbeError


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tileprobe",
        description="See what happens inside a tile kernel, on the CPU or on a machine that exists as a simulator.",
    )
    parser.add_argument("--version", action="version", version=f"tileprobe {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")):
        module = import_module(f"{__name__}.{name}")
        text = (module.__doc__ or "").strip()
        sub = commands.add_parser(
            name,
            help=text.splitlines()[0] if text else "",
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def main(argv: list[str] | None = None) -> int:
    _open_standard_streams()
    args = build_parser().parse_args(argv)
    try:
        _check_output(args)
        code = args.run(args)
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
        return code
    except TileProbeError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # `tileprobe export ... --out - | head`
            _drop_output()
            return 0
        say(str(error))
        return 2
    except BrokenPipeError:  # `tileprobe report ... | head`
        _drop_output()
        return 0
    except KeyboardInterrupt:
        say("interrupted")
        return 130
    except OSError as error:
        _drop_output()
        say(f"{error.filename or 'the standard output'}: {error.strerror or error}")
        return 2
    except (MemoryError, RecursionError) as error:
        say(f"{args.command}: {'out of memory' if isinstance(error, MemoryError) else 'nested too deeply'}")
        return 2


def _open_standard_streams() -> None:
    """Where one was closed (`>&-`), the next file that is opened would become it, and be printed into."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free


def _check_output(args: argparse.Namespace) -> None:
    """`-` is the standard output: where that was closed, what was asked for would be lost without a word."""
    for name in ("json", "out"):
        if getattr(args, name, None) == "-" and sys.stdout is None:
            raise TileProbeError(f"--{name} - is the standard output, which is closed; give it a file")


def _drop_output() -> None:
    """What is still to be printed goes nowhere, so that Python does not complain at its end."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (AttributeError, OSError, ValueError):  # no output, or a stand-in for one
        pass
