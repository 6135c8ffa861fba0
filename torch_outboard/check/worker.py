"""The process in which checks run: opens the driver, then runs what it is told.

Its parent (`runner.py`) ends it when a check fails, ends the process, or takes too long.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import torch

from torch_outboard.check.catalog import all_checks, perform
from torch_outboard.check.opening import open_driver
from torch_outboard.check.session import Session

# Bytes of the file that has the name of the function that was called last.
NAME_BYTES = 64
_PR_SET_PDEATHSIG = 1


def work(
    wanted: str, behind_faults: bool, folder: str, settings: dict[str, str], pipe: Connection
) -> None:
    """Runs checks, whose names and limits in seconds come by the pipe, until it closes.

    Answers `("ready", device, remark)` or `("problem", reason)`, then an outcome for each name, or
    `("hangs", functions)` when its time is over.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setsid()  # with what the driver starts
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # which takes seconds to write
    output = os.open(os.path.join(folder, "output"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.update(settings)
    torch.set_num_threads(1)
    checks = all_checks()
    try:
        opened = open_driver(wanted, behind_faults, _noting(folder))
    except ValueError as error:
        pipe.send(("problem", str(error)))
        return
    pipe.send(("ready", opened.device, opened.remark))
    run = "faults" if behind_faults else "direct"
    with contextlib.suppress(EOFError):
        while True:
            name, limit = pipe.recv()
            with _watched(limit, opened.session, pipe):
                outcome = perform(checks[name], opened.session, run)
            pipe.send(outcome)


def _noting(folder: str) -> Callable[[str], None]:
    """A function that notes the name of a function where the parent finds it after a crash."""
    with open(os.path.join(folder, "function"), "w+b") as file:
        file.truncate(NAME_BYTES)
        memory = mmap.mmap(file.fileno(), NAME_BYTES)

    def note(name: str) -> None:
        memory[:] = name.encode().ljust(NAME_BYTES, b"\0")

    return note


@contextlib.contextmanager
def _watched(limit: float, driver: Session, pipe: Connection) -> Iterator[None]:
    """Tells the parent which functions are under way when a check takes too long."""
    done = threading.Event()

    def watch() -> None:
        left, last = limit, time.monotonic()
        while left > 0:
            if done.wait(min(left, 0.5)):
                return
            now = time.monotonic()
            left -= min(now - last, 1.0)  # a process that was stopped does not count
            last = now
        pipe.send(("hangs", sorted(set(driver.under_way.values()))))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
