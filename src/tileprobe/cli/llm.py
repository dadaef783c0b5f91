"""Decode an LLM on a simulated Cambricon-LLM device: speed, time, bytes, joules.

examples:
  tileprobe llm --model opt-6.7b --device cambricon:l
  tileprobe llm --model opt-6.7b --device cambricon:s --html token.html
  tileprobe llm --model my/config.json --device my-device.toml --json out.json
  tileprobe llm --model llama2-70b --mha --device cambricon:s --no-slicing
  tileprobe llm --model opt-6.7b --device cambricon:l --what-if --scale 1.5
  tileprobe llm --model opt-6.7b --ir > step.mlir
  tileprobe llm --from-ir step.mlir
  tileprobe llm sweep --model opt-6.7b --vary chips_per_channel=1,2,4,8
  tileprobe llm search --model llama3-8b --space channels=4..32 --area die=66
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from importlib.util import find_spec

from tileprobe.sweeps.options import add_arguments as add_sweep_options

_FUNCTIONAL = "tileprobe.targets.cambricon.functional.cli"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="llm_command", metavar="[sweep | search | generate | ber]")
    sweep = commands.add_parser(
        "sweep", help="run every combination of some parameters, in parallel, resumable"
    )
    _add_run_arguments(sweep)
    _add_sweep_arguments(sweep)
    search = commands.add_parser(
        "search", help="devices that none beats in speed, energy, area and cost at once"
    )
    _add_run_arguments(search)
    _add_search_arguments(search)
    if find_spec(_FUNCTIONAL) is not None:
        from importlib import import_module

        functional = import_module(_FUNCTIONAL)
        functional.add_generate_arguments(
            commands.add_parser(
                "generate", help="generate text through the machine, values read from its pages"
            )
        )
        functional.add_ber_arguments(commands.add_parser("ber", help="perplexity against the bit error rate"))
    _add_run_arguments(parser)
    _add_output_arguments(parser)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("what runs")
    what.add_argument(
        "--model",
        default=None,
        help="a built-in name (opt-6.7b, llama2-70b ...) or a Hugging Face config.json",
    )
    what.add_argument(
        "--device", default="cambricon:s",
        help="cambricon:s, :m, :l, :nand1600, :nand3600, :hbf, with +tlc behind it for cells of three bits, or a TOML "
        "file (default %(default)s)",
    )  # fmt: skip
    what.add_argument(
        "--context", type=int, default=1000, help="tokens in the KV cache (default %(default)s)"
    )
    what.add_argument("--weights", default="w8a8", choices=("w8a8", "w4a16"), help="default %(default)s")
    what.add_argument("--mha", action="store_true", help="treat grouped key and value heads as full ones")
    what.add_argument(
        "--lm-head", action="store_true", help="count the output projection too (the paper does not)"
    )
    what.add_argument(
        "--prefill", action="store_true", help="the prompt of --context tokens instead of one token"
    )
    what.add_argument(
        "--prefill-split", action="store_true", help="the flash computes its share of a prefill, too"
    )
    what.add_argument("--batch", type=int, default=1, metavar="N", help="sequences decoded together")
    what.add_argument(
        "--verify", type=int, default=1, metavar="K",
        help="tokens of a sequence verified in one pass over the pages (default %(default)s: plain decoding)",
    )  # fmt: skip
    what.add_argument(
        "--acceptance", type=float, metavar="A",
        help="of --verify: chance that a drafted token is accepted (default: 0.8)",
    )  # fmt: skip
    what.add_argument(
        "--kv", default="dram", choices=("dram", "spill", "flash"),
        help="keys and values: in DRAM, where they have to fit; older tokens in flash when they do not; all but a "
        "page in flash (default %(default)s)",
    )  # fmt: skip
    what.add_argument(
        "--packages", type=int, default=1, metavar="N",
        help="packages that share the model over a link, [packages] of the device (default %(default)s)",
    )  # fmt: skip
    what.add_argument(
        "--split", choices=("tensor", "pipeline"),
        help="of --packages: a part of every matrix in each, or some of the layers (default: tensor)",
    )  # fmt: skip
    what.add_argument(
        "--age", default="", metavar="NAME=NUMBER,...",
        help="a flash that ages: cycles, days (since pages were written), celsius, reads (of a page since then), "
        "reclaim (pages are rewritten after so many reads, or auto), refresh (after so many days, or auto), "
        "tokens_a_day, seed (default: a flash that never ages)",
    )  # fmt: skip
    what.add_argument(
        "--routing", default="uniform", metavar="HOW",
        help="experts that tokens of a mixture meet: uniform, zipf:S, or a file of routes, .json or .npy "
        "[tokens, layers, experts] (default %(default)s)",
    )  # fmt: skip
    what.add_argument("--seed", type=int, default=0, help="of the routing (default %(default)s)")
    what.add_argument(
        "--expert-cache", type=float, default=0.0, metavar="GB", help="DRAM that keeps the experts used last"
    )
    how = parser.add_argument_group("how it is compiled")
    how.add_argument(
        "--tiling", default="paper", choices=("paper", "best"), help="shape of requests (default %(default)s)"
    )
    how.add_argument("--tile", default="", metavar="HxW", help="this shape for all matrices, e.g. 256x2048")
    how.add_argument("--no-slicing", action="store_true", help="no slice control: pages are never cut")
    mode = how.add_mutually_exclusive_group()
    mode.add_argument("--flash-only", action="store_true", help="no share for the NPU")
    mode.add_argument("--npu-only", action="store_true", help="all pages stream to the NPU")
    machine = parser.add_argument_group("changes to the device")
    machine.add_argument("--channels", type=int, metavar="N")
    machine.add_argument("--chips-per-channel", type=int, metavar="N")
    machine.add_argument(
        "--set", action="append", default=[], metavar="CONSTANT=VALUE", help="any constant of the device"
    )


def _add_output_arguments(parser: argparse.ArgumentParser) -> None:
    out = parser.add_argument_group("output")
    out.add_argument("--json", metavar="FILE", help="write the result as JSON (- for the terminal)")
    out.add_argument("--trace", metavar="FILE", help="write the intervals of all units as a trace")
    out.add_argument("--html", metavar="FILE", help="write that trace as a page that needs nothing else")
    out.add_argument("--chrome", metavar="FILE", help="write its timeline, for ui.perfetto.dev")
    out.add_argument(
        "--view", action="append", metavar="NAME=FILE",
        help="write it with this view (perfetto, speedscope, ...), or file.py:Class=FILE",
    )  # fmt: skip
    out.add_argument("--no-source", action="store_true", help="no IR in --html and --view, to mail them")
    out.add_argument(
        "--trace-intervals",
        type=int,
        default=1_000_000,
        metavar="N",
        help="keep at most N (default %(default)s)",
    )
    out.add_argument(
        "--ir", nargs="?", const="mapped", choices=("built", "mapped"),
        help="print the IR instead of running it: as built, for `tileprobe opt`, or mapped (default)",
    )  # fmt: skip
    out.add_argument(
        "--from-ir", metavar="FILE",
        help="run the mapped IR of a file (- for standard input) as --ir prints it, edited or not",
    )  # fmt: skip
    out.add_argument(
        "--what-if", nargs="?", const="", metavar="WORD",
        help="also simulate devices that have one thing faster: each unit, rate and latency, ranked; or those with "
        "this in their name",
    )  # fmt: skip
    out.add_argument(
        "--scale", type=float, metavar="K", help="of --what-if: how many times faster (default: 2)"
    )
    out.add_argument("--baselines", action="store_true", help="also offloading to a host, and the NPU alone")


def _add_sweep_arguments(parser: argparse.ArgumentParser) -> None:
    sweep = parser.add_argument_group("the sweep")
    sweep.add_argument(
        "--vary", action="append", required=True, metavar="NAME=A,B,...",
        help="an option (model, device, context, weights, tiling, tile, mode, slicing, mha, lm_head, kv, age, "
        "packages, split, batch, "
        "verify, acceptance, routing, seed, expert_cache) or a "
        "constant of the device; repeat for more",
    )  # fmt: skip
    sweep.add_argument(
        "--plot", default="tokens_per_s", metavar="COLUMN",
        help="what the plot NAME.png shows (default %(default)s)",
    )  # fmt: skip
    add_sweep_options(parser)


def _add_search_arguments(parser: argparse.ArgumentParser) -> None:
    search = parser.add_argument_group("the search")
    search.add_argument(
        "--space", action="append", required=True, metavar="NAME=A,B,... | LOW..HIGH[..STEP]",
        help="an option or a constant of the device, as for `sweep --vary`, with its values or its range; repeat",
    )  # fmt: skip
    search.add_argument(
        "--points", type=int, default=400, metavar="N", help="about how many are tried (default %(default)s)"
    )
    search.add_argument(
        "--goal", action="append", default=[], metavar="max:COLUMN | min:COLUMN",
        help="default: max:tokens_per_s, min:joules_per_token, min:mm2, and min:cost where --cost says what parts cost",
    )  # fmt: skip
    search.add_argument(
        "--area", action="append", default=[], metavar="PART=MM2",
        help="area of each device, channel, chip, die, core, npu, pe, sram_mib or dram_gb; repeat for more. Without it "
        "the area is that of the compute cores, which the device's file has",
    )  # fmt: skip
    search.add_argument(
        "--cost", action="append", default=[], metavar="PART=PRICE", help="what each of these parts costs"
    )
    search.add_argument(
        "--population", type=int, default=40, metavar="N", help="points of a generation (default %(default)s)"
    )
    search.add_argument(
        "--search-seed",
        type=int,
        default=0,
        metavar="N",
        help="the points follow from it (default %(default)s)",
    )
    add_sweep_options(parser)


def run(args: argparse.Namespace) -> int:
    if args.llm_command in ("generate", "ber"):
        from importlib import import_module

        return getattr(import_module(_FUNCTIONAL), f"run_{args.llm_command}")(args)
    if args.llm_command == "sweep":
        from tileprobe.targets.cambricon.sweep import run_sweep_command

        return run_sweep_command(args)
    if args.llm_command == "search":
        from tileprobe.targets.cambricon.explore import run_search_command

        return run_search_command(args)
    return _run_one(args)


def _run_one(args: argparse.Namespace) -> int:
    from tileprobe.errors import TileProbeError
    from tileprobe.targets.cambricon.command import check_say, settings_of

    traced = [name for name in ("trace", "html", "chrome", "view") if getattr(args, name)]
    if args.from_ir and traced:
        raise TileProbeError(f"--from-ir runs as the file says and records nothing: leave out --{traced[0]}")
    if args.from_ir:
        _only_the_file(args)
        return _run_ir(args)
    unused = [name for name in _unusual(args, _add_output_arguments) if name != "ir"]
    if args.ir and unused:
        raise TileProbeError(
            f"--ir prints a step and runs nothing: leave out --{unused[0].replace('_', '-')}"
        )
    if args.model is None:
        raise TileProbeError(
            "say which model: --model opt-6.7b, another built-in name, or the path of a config.json"
        )
    check_say(vars(args))
    if not traced and (args.no_source or "trace_intervals" in _unusual(args, _add_output_arguments)):
        option = "--no-source" if args.no_source else "--trace-intervals"
        raise TileProbeError(
            f"{option} is about what is recorded: give --trace, --html, --chrome or --view, too"
        )
    if args.scale is not None and args.what_if is None:
        raise TileProbeError("--scale says how many times faster what is tried by --what-if: give that, too")
    if args.scale is not None and not 0 < args.scale < math.inf:
        raise TileProbeError(
            f"--scale: something can be 2 times faster, or 0.5 times, not {args.scale:g} times"
        )
    model, machine, options = settings_of(vars(args))
    if args.ir:
        from tileprobe.targets.cambricon.compile import build, compile_step

        print((build if args.ir == "built" else compile_step)(model, machine, options))
        return 0
    from tileprobe.cli import _outputs as outputs
    from tileprobe.targets.cambricon.simulate import simulate

    outputs.check(args)
    failed = False
    if traced:
        from tileprobe.session.session import Session

        with Session(tools=("regions", "units"), intervals=args.trace_intervals) as session:
            result = simulate(model, machine, options)
        failed = outputs.write_files(session, args)
    else:
        result = simulate(model, machine, options)
    changes, scale = None, 2.0 if args.scale is None else args.scale
    if args.what_if is not None:
        from tileprobe.targets.cambricon.what_if import what_if

        changes = what_if(model, machine, options, scale, args.what_if)
    if args.json:
        told = (
            {} if changes is None else {"what_if": {"scale": scale, "rows": [asdict(row) for row in changes]}}
        )
        _write_json(args.json, result.to_json() | told)
    if args.json != "-":
        _print(args, model, machine, options, result, changes)
    return 2 if failed else 0


def _only_the_file(args: argparse.Namespace) -> None:
    """The file says all of a run but its age: what else was given would be passed over."""
    from tileprobe.errors import TileProbeError

    given = [
        name for name in _unusual(args, _add_run_arguments, _add_output_arguments)
        if name not in ("age", "json", "from_ir")
    ]  # fmt: skip
    if given:
        raise TileProbeError(
            f"--from-ir runs the step that is in the file: --{given[0].replace('_', '-')} has no say in it, leave "
            "it out"
        )


def _unusual(args: argparse.Namespace, *added: Callable[[argparse.ArgumentParser], None]) -> list[str]:
    """Options that have another value than when nothing is said."""
    plain = argparse.ArgumentParser()
    for add in added:
        add(plain)
    return [name for name, value in vars(plain.parse_args([])).items() if getattr(args, name) != value]


def _run_ir(args: argparse.Namespace) -> int:
    """A mapped step from a file: its commands as they stand there, and the machine that it names."""
    from tileprobe.cli.opt import read_module
    from tileprobe.targets.cambricon.dialect import find_machine
    from tileprobe.targets.cambricon.report import print_report
    from tileprobe.targets.cambricon.simulate import simulate_module

    module = read_module(args.from_ir)
    result = simulate_module(module, args.age)
    if args.json:
        _write_json(args.json, result.to_json())
    if args.json != "-":
        print_report(result, find_machine(module))
    return 0


def _print(args: argparse.Namespace, model, machine, options, result, changes) -> None:
    from tileprobe.targets.cambricon.baselines import baselines
    from tileprobe.targets.cambricon.report import print_report

    others = baselines(model, machine, options) if args.baselines else None
    print_report(result, machine, others, changes)
    written = [
        path for path in (args.trace, args.html, args.chrome, *(path for _, path in args.views)) if path
    ]
    if written:
        print(f"\nwritten: {', '.join(written)}")


def _write_json(path: str, document: dict) -> None:
    if path == "-":
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    from tileprobe.files import write_json

    write_json(path, document)
