"""Runs functions in forked children, for tests about what a fork leaves behind.

Imported by the processes that tests start, which is why it needs nothing but Python.
"""

import os
import signal
import time
from collections.abc import Callable

SECONDS = 60


def in_child(function: Callable[[], object]) -> str:
    """The outcome of `function` in a forked child: "returned ..." or "SomeError: its first line".

    A child that does not end within a minute is killed: "hangs". One that ends otherwise than by
    the function's end "died with status N".
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            outcome = f"returned {function()}"
        except BaseException as error:
            outcome = f"{type(error).__name__}: {error}".splitlines()[0]
        os.write(write, outcome.encode())
        os._exit(0)
    os.close(write)
    deadline = time.monotonic() + SECONDS
    while (done := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return "hangs"
        time.sleep(0.002)
    if done[1] != 0:
        return f"died with status {done[1]}"
    with os.fdopen(read, "rb") as pipe:
        return pipe.read().decode()
