"""Programs in processes that fork from one that has imported PyTorch (fork_server.py)."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from pathlib import Path

from tests.fork_server import LIMIT

# Variables that are read only when a program runs, and may differ from the server's.
_LATER = (
    "OUTBOARD_", "TEST_", "PYTEST_", "TORCHINDUCTOR_", "TORCH_DEVICE_BACKEND_AUTOLOAD",
)  # fmt: skip


def _before(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_LATER)}


class ForkServer:
    """The server of this process, with which it ends."""

    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.environment = _before(dict(os.environ))
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        script = str(Path(__file__).with_name("fork_server.py"))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-P", script, str(theirs.fileno())],
                env=self.environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def run(self, program: bytes, output: int, errors: int, timeout: float) -> int | None:
        """The exit status, or None if it took longer than so many seconds and was killed."""
        socket.send_fds(self.connection, [program], [output, errors])
        process = self._receive()
        self.connection.settimeout(timeout)
        try:
            return self._receive()
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
        finally:
            self.connection.settimeout(None)
        self._receive()
        return None

    def _receive(self) -> int:
        said = self.connection.recv(64)
        if not said:
            raise RuntimeError(f"the server of processes ended with {self.process.wait()}")
        return int(said)


@cache
def _server() -> ForkServer:
    return ForkServer()


def run_forked(
    code: str, arguments: tuple[str, ...], timeout: float, environment: dict[str, str]
) -> subprocess.CompletedProcess[str] | None:
    """Runs a program; returns None, and runs nothing, where only a fresh Python will do.

    Raises:
        subprocess.TimeoutExpired: if it takes longer, in seconds.
    """
    server = _server()
    words = {"code": code, "arguments": arguments, "folder": os.getcwd()}
    program = json.dumps({**words, "environment": environment}).encode()
    if len(program) > LIMIT or _before(environment) != server.environment:
        return None
    if not server.busy.acquire(blocking=False):  # by another thread of this process
        return None
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            status = server.run(program, output.fileno(), errors.fileno(), timeout)
        finally:
            server.busy.release()
        output.seek(0)
        errors.seek(0)
        printed = output.read(), errors.read()
    if status is None:
        raise subprocess.TimeoutExpired(["python", "-c", code], timeout, *printed)
    return subprocess.CompletedProcess(["python", "-c", code], status, *printed)
