"""What is done to runs. A scenario does one thing, at a random moment or degree, and says what was wrong."""

from __future__ import annotations

import resource
import signal
import subprocess
import threading
import time
from collections.abc import Callable

from fuzz.chaos.trial import LIMIT_S, OUTPUTS, Trial, busy, signalled

Scenario = Callable[[Trial], None]


def killed(trial: Trial) -> None:
    """kill -9 at a random moment, from the start of Python to the end: nothing half written."""

    def meanwhile(process: subprocess.Popen[bytes], launching: threading.Event) -> None:
        if trial.draw.random() < 0.8:
            launching.wait(LIMIT_S)
        time.sleep(trial.draw.random() * 2.0)
        process.kill()

    trial.run(trial.command("steady", "40"), meanwhile)
    trial.whole_or_old()


def _ended_by(number: int, trial: Trial) -> None:
    ended = trial.run(trial.command("steady", "300"), signalled(number, trial.draw))
    trial.kept(ended.launched)
    expected = (-number, 130) if number == signal.SIGINT else (-number,)
    trial.expect(ended.code in expected, f"exit status {ended.code}")


def terminated(trial: Trial) -> None:
    """SIGTERM at a random moment: every launch that was over is in the trace, all outputs are there."""
    _ended_by(signal.SIGTERM, trial)


def hung_up(trial: Trial) -> None:
    """SIGHUP, as from a terminal that is closed."""
    _ended_by(signal.SIGHUP, trial)


def interrupted(trial: Trial) -> None:
    """Ctrl-C."""
    _ended_by(signal.SIGINT, trial)


def full_disk(trial: Trial) -> None:
    """No file can be larger than a random size: what does not fit is said, what was there stays."""
    size = trial.draw.choice((0, 1, 100, 1000, 4000, 10_000, 30_000))

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    trial.run(trial.command("steady", "1"))  # Triton's own cache has what it needs from here on
    trial.renew()
    ended = trial.run(trial.command("steady", "5"), prepare=limit)
    new = trial.whole_or_old()
    trial.expect(not trial.leftovers(), f"left behind: {trial.leftovers()}")
    said = (
        ended.err.count("cannot write") + ended.err.count("cannot be written") + ended.err.count("could not")
    )
    if trial.expect(ended.launched == 5, "the program did not come to its end"):
        trial.expect(
            new == len(OUTPUTS) or (ended.code != 0 and said > 0), f"{new} written, {ended.code}, {said} said"
        )


def closed_pipe(trial: Trial) -> None:
    """Who reads the output goes away at a random moment: the files are written all the same."""
    both = trial.draw.random() < 0.5
    last = b"launched %d\n" % trial.draw.randrange(1, 30)
    error = subprocess.PIPE if both else subprocess.DEVNULL
    command = trial.command("steady", "60")
    with subprocess.Popen(command, cwd=trial.folder, stdout=subprocess.PIPE, stderr=error) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line == last:
                break
        process.stdout.close()
        if process.stderr is not None:
            process.stderr.close()
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = None
    trial.expect(code is not None, "it hung")
    trial.kept(int(last.split()[1]))


def eight_threads(trial: Trial) -> None:
    """Eight threads launch at once and outlive the main one."""
    ended = trial.run(trial.command("threads", "12"))
    trial.kept(97)
    trial.expect(ended.code == 0, f"exit status {ended.code}")


def forked(trial: Trial) -> None:
    """Processes of a pool that forks; one more is killed, which is said."""
    _pool("fork", trial)


def spawned(trial: Trial) -> None:
    """Processes of a pool that starts Python anew; one more is killed, which is said."""
    _pool("spawn", trial)


def _pool(method: str, trial: Trial) -> None:
    ended = trial.run(trial.command("pool", method, "6"))
    trial.kept(6)
    trial.expect(ended.code == 0, f"exit status {ended.code}")
    trial.expect(
        "was killed: its launches are not in this report" in ended.err, "the killed child is not said"
    )


def two_at_once(trial: Trial) -> None:
    """Two runs that write the same files: each file is that of one of them."""
    command = trial.command("steady", "8")
    other = subprocess.Popen(command, cwd=trial.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = trial.run(command)
    trial.expect(
        other.wait(LIMIT_S) == 0 and ended.code == 0, f"exit status {other.returncode}, {ended.code}"
    )
    trial.kept(8)


def loaded(trial: Trial) -> None:
    """SIGTERM while two other processes keep the cores busy."""
    with busy(2):
        terminated(trial)


def loaded_threads(trial: Trial) -> None:
    """Eight threads while two other processes keep the cores busy."""
    with busy(2):
        eight_threads(trial)


SCENARIOS: dict[str, Scenario] = {
    "kill -9": killed,
    "SIGTERM": terminated,
    "SIGHUP": hung_up,
    "Ctrl-C": interrupted,
    "full disk": full_disk,
    "closed pipe": closed_pipe,
    "8 threads": eight_threads,
    "fork": forked,
    "spawn": spawned,
    "two at once": two_at_once,
    "SIGTERM, busy": loaded,
    "8 threads, busy": loaded_threads,
}
