"""The `tileprobe` command. One command a file: a module here whose name has no leading underscore is a command.

A command module has a docstring (its first line is the help text), `add_arguments(parser)` and
`run(args) -> int`. It imports what is heavy inside `run`, so that `tileprobe --help` stays fast.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from importlib import import_module

from tileprobe import __version__
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
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except TileProbeError as error:
        print(f"tileprobe: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `tileprobe ... | head`
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("tileprobe: interrupted", file=sys.stderr)
        return 130
