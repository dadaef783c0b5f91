"""`python -m fuzz.inputs.guided trace|ir --seconds 60`: damage that is guided by the lines it reaches.

Needs Atheris (`pip install atheris`), which brings libFuzzer and counts the branches of our modules; the damage itself
is that of the campaign. What ends in an exception that is no message is written to the folder and ends the run.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

KINDS = ("trace", "ir")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.inputs.guided", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=int, default=60, help="how long (60)")
    parser.add_argument(
        "--out", type=Path, default=Path("out/fuzz/guided"), help="corpus and findings (%(default)s)"
    )
    args = parser.parse_args()
    try:
        import atheris
    except ImportError:
        parser.error("Atheris is not installed: pip install atheris")
    with atheris.instrument_imports(include=["tileprobe"], enable_loader_override=False):
        from fuzz.inputs import ir, mutate, traces, trying

        for seed in range(3):  # commands import what they need when they run: now, so that it is counted
            trying.run(trying.command(args.kind, seed))
    folder = args.out.absolute() / args.kind
    folder.mkdir(parents=True, exist_ok=True)
    seeds = traces.corpus() if args.kind == "trace" else [text.encode() for text, _ in ir.corpus()]
    for number, data in enumerate(seeds):
        (folder / f"seed-{number}").write_bytes(data)
    path = trying.folder() / "guided"
    words = ["report", str(path)] if args.kind == "trace" else ["opt", str(path), "-p", ir.USUAL[".tile"]]

    def one(data: bytes) -> None:
        path.write_bytes(data)
        code, said = trying.run(words)
        if code is None:
            raise RuntimeError(said)

    def damaged(data: bytes, largest: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if args.kind == "trace" or draw.random() < 0.2:
            return mutate.bytes_like(data, draw)[:largest]
        text = mutate.text_like(data.decode("utf-8", "replace"), draw, [text for text, _ in ir.corpus()])
        return text.encode("utf-8", "replace")[:largest]

    options = [
        f"-max_total_time={args.seconds}",
        "-timeout=60",
        "-max_len=100000",
        f"-artifact_prefix={folder}/found-",
    ]
    atheris.Setup([sys.argv[0], *options, str(folder)], one, custom_mutator=damaged)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
