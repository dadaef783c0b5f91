"""A program for the tests of `tileprobe run`: launches kernels, then ends in the way its first argument says."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import session_kernels as K

_kept = []  # what Python itself must bring to an end


def work(programs: int) -> int:
    K.launch(K.scale_kernel, programs, 2.0)
    return os.getpid()


def late(seconds: float = 0.3) -> None:
    time.sleep(seconds)
    work(2)


def pool(method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as workers:
        workers.map(work, [2, 3, 4, 5], chunksize=1)


def wait() -> None:
    print("ready", flush=True)
    time.sleep(120)


def fork() -> None:
    """Both processes go on to the end of the program."""
    if os.fork() == 0:
        work(5)
    else:
        os.wait()


def grandchild() -> None:
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()


def child() -> None:
    work(2)
    subprocess.run([sys.executable, __file__, "nothing"], check=True)


def executor() -> None:
    workers = concurrent.futures.ThreadPoolExecutor(2)
    _kept.append(workers)
    for _ in range(3):
        workers.submit(late)


def killed() -> None:
    """Of two children one is killed; both have launched a kernel."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    victim = context.Process(target=lambda: (work(2), ready.set(), time.sleep(120)))
    other = context.Process(target=work, args=(3,))
    victim.start()
    ready.wait()
    os.kill(victim.pid, signal.SIGKILL)
    other.start()
    other.join()


def own_handler() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    wait()


WAYS = {
    "again": lambda: subprocess.run([sys.executable, os.path.abspath(__file__), "nothing"], check=True),
    "elsewhere": lambda: os.chdir("/"),
    "nothing": lambda: None,
    "wait": wait,
    "own-handler": own_handler,
    "close": lambda: sys.stdout.close(),
    "close-1": lambda: os.close(1),
    "print": lambda: [print("x" * 100) for _ in range(5000)],
    "thread": lambda: threading.Thread(target=late).start(),
    "thread-exit": lambda: threading.Thread(target=lambda: (late(), sys.exit(9))).start(),
    "executor": executor,
    "_exit": lambda: os._exit(3),
    "fork": fork,
    "pool-fork": lambda: pool("fork"),
    "pool-spawn": lambda: pool("spawn"),
    "pool-forkserver": lambda: pool("forkserver"),
    "process": lambda: multiprocessing.get_context("fork").Process(target=late).start(),
    "grandchild": grandchild,
    "killed": killed,
    "shout": lambda: subprocess.run(["echo", "from a child"], check=True),
}

if __name__ == "__main__":
    K.launch(K.loop_kernel, 3, 4)
    print("in the program")
    WAYS[sys.argv[1]]()
