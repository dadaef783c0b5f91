"""One trial: a run with something done to it, and whether what docs/robustness.md promises was kept."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tileprobe.errors import TileProbeError
from tileprobe.trace import Trace

PROGRAM = Path(__file__).with_name("program.py")
LIMIT_S = 240.0  # a trial that takes longer hangs
OLD = "an older file\n"
OUTPUTS = ("t.parquet", "r.json", "c.json")
BAD = ("Traceback (most recent call last)", "Exception ignored", "panicked at")


@dataclass
class Ended:
    """What a run left: its exit status, what it printed, the launches its program said were over."""

    code: int | None  # None: it hung
    out: str
    err: str
    launched: int = 0


@dataclass
class Trial:
    """A folder with older files in it, and what was found wrong."""

    folder: Path
    draw: random.Random
    wrong: list[str] = field(default_factory=list)

    def command(self, *program: str, options: tuple[str, ...] = ()) -> list[str]:
        trace, report, chrome = OUTPUTS
        outputs = ["--trace", trace, "--json", report, "--chrome", chrome]
        run = [sys.executable, "-m", "tileprobe", "run", "--no-alternate", *outputs, *options]
        return [*run, str(PROGRAM), *program]

    def run(
        self,
        command: list[str],
        meanwhile: Callable[[subprocess.Popen[bytes], threading.Event], None] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> Ended:
        """Runs a command to its end. `meanwhile` is called beside it, with an event that says when it launches."""

        def before() -> None:
            for number in (signal.SIGHUP, signal.SIGINT):  # a campaign in the background may ignore them
                signal.signal(number, signal.SIG_DFL)
            if prepare is not None:
                prepare()

        process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before
        )
        launching = threading.Event()
        ended = Ended(0, "", "")
        readers = [
            threading.Thread(target=_read_out, args=(process, ended, launching), daemon=True),
            threading.Thread(target=_read_err, args=(process, ended), daemon=True),
        ]
        for reader in readers:
            reader.start()
        if meanwhile is not None:
            meanwhile(process, launching)
        try:
            ended.code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            ended.code = None
        for reader in readers:
            reader.join(10)
        self.expect(ended.code is not None, f"it hung: {ended.err[-300:]}")
        for mark in BAD:
            self.expect(mark not in ended.err, f"{mark}: {ended.err[-600:]}")
        return ended

    def renew(self) -> None:
        """Older files, where outputs will be."""
        for name in OUTPUTS:
            (self.folder / name).write_text(OLD)

    def expect(self, holds: bool, what: str) -> bool:
        if not holds:
            self.wrong.append(what)
        return holds

    def whole_or_old(self) -> int:
        """Each output is whole, or what was there before; returns how many are new. No temporary file is anywhere."""
        new = 0
        for name in OUTPUTS:
            path = self.folder / name
            if path.read_bytes() == OLD.encode():
                continue
            new += 1
            try:
                Trace.load(path) if name.endswith("parquet") else json.loads(path.read_text(encoding="utf-8"))
            except (TileProbeError, ValueError, OSError) as error:
                self.expect(False, f"{name} is neither whole nor old: {error}")
        return new

    def leftovers(self) -> list[str]:
        return sorted(name for name in os.listdir(self.folder) if name not in OUTPUTS)

    def kept(self, least: int) -> None:
        """All outputs are new, and the trace has at least so many launches."""
        if not self.expect(self.whole_or_old() == len(OUTPUTS), "an output was not written"):
            return
        ran = sum(work.ran for work in Trace.load(self.folder / OUTPUTS[0]).works)
        self.expect(ran >= least, f"{ran} launches in the trace of {least} that were over")
        self.expect(not self.leftovers(), f"left behind: {self.leftovers()}")


def _read_out(process: subprocess.Popen[bytes], ended: Ended, launching: threading.Event) -> None:
    assert process.stdout is not None
    with contextlib.suppress(ValueError):  # closed by the trial
        for line in process.stdout:
            ended.out += line.decode("utf-8", "replace")
            said = re.fullmatch(rb"launched (\d+)\n", line)
            if said:
                ended.launched = int(said[1])
                launching.set()


def _read_err(process: subprocess.Popen[bytes], ended: Ended) -> None:
    assert process.stderr is not None
    ended.err = process.stderr.read().decode("utf-8", "replace")


@contextlib.contextmanager
def trial(seed: str) -> Iterator[Trial]:
    with tempfile.TemporaryDirectory(prefix="tileprobe-chaos-") as folder:
        made = Trial(Path(folder), random.Random(seed))
        made.renew()
        yield made


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """So many processes that do nothing but keep cores busy."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], stdout=subprocess.DEVNULL)
        for _ in range(processes)
    ]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def signalled(number: int, draw: random.Random) -> Callable[[subprocess.Popen[bytes], threading.Event], None]:
    """A signal at a random moment after the first launch."""

    def meanwhile(process: subprocess.Popen[bytes], launching: threading.Event) -> None:
        launching.wait(LIMIT_S)
        time.sleep(draw.random() * 1.5)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.Signals(number))

    return meanwhile
