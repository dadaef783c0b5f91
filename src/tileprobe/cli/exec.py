"""Run a program that was written for CUDA on a target, as it is, without profiling.

`device="cuda"` is the memory of this machine, `torch.cuda` answers for the target, and Triton kernels run on it.
docs/cuda-scripts.md says what works.

Examples:
  tileprobe exec train.py --epochs 1
  tileprobe exec --threads 4 -m package.module
  tileprobe exec -- pytest tests/test_kernels.py
"""

from __future__ import annotations

import argparse
import json

from tileprobe.cli._settings import add_check, add_timed, settings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tileprobe exec [options] script.py [args] | -m module [args] | -- command [args]"
    parser.add_argument(
        "--target", default="cpu", metavar="NAME", help="cpu, another that `doctor` lists, or file.py:Class"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="threads of the CPU and of simulated GPUs")
    add_check(parser)
    add_timed(parser)
    parser.add_argument(
        "--no-cuda", action="store_true", help="leave torch alone: only Triton kernels go to the target"
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    import tileprobe
    from tileprobe.cli import _hook
    from tileprobe.cli._environment import Environment, absolute
    from tileprobe.session import script

    words = ["-m", *args.module] if args.module is not None else list(args.program)
    words = words[1:] if words[:1] == ["--"] else words
    script.resolve(words)
    chosen, cuda = settings(args), not args.no_cuda
    environment = Environment()
    environment.set(
        _hook.EXEC, json.dumps({"target": absolute(args.target), "cuda": cuda, "settings": chosen})
    )
    environment.reach_children()
    try:
        with tileprobe.use(args.target, cuda=cuda, **chosen):
            return script.run(words)
    finally:
        environment.restore()
