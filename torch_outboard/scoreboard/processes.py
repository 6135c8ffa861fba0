"""Processes that answer lines, and are started anew when a question kills them."""

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Protocol, TypeVar

SLICE = 1.0  # seconds
START_TIMEOUT = 300.0  # seconds; importing PyTorch's operator database takes a while


class LineProcess:
    """A Python process that answers each line on its standard input with one on its output.

    The first question starts it, also after it has ended. Its first line, `greeting`, says that it
    is ready.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        """`arguments`: of the interpreter; `environment`: what differs from this process's.

        `folder`: where it runs; default: where this process does.
        """
        self.arguments = [sys.executable, *arguments]
        self.folder = folder
        self.environment = {**os.environ, **environment}
        self.greeting = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile("a+b")  # noqa: SIM115, lives as long as this object

    def start(self) -> str:
        """Starts it unless it runs; its greeting.

        Raises:
            RuntimeError: if it ends, or says nothing for START_TIMEOUT.
        """
        if self._process is not None and self._process.poll() is None:
            return self.greeting
        self.close()
        self._log.truncate(0)
        self._process = subprocess.Popen(
            self.arguments, cwd=self.folder, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip
        try:
            self.greeting = self._read_line(START_TIMEOUT)
        except (TimeoutError, EOFError) as error:
            raise RuntimeError(f"the worker does not start: {error}") from error
        return self.greeting

    def ask(self, line: str, timeout: float) -> str:
        """Its answer; without one, the process does not run any more.

        Raises:
            TimeoutError: if it answers nothing for `timeout` seconds.
            EOFError: if it ends; the message has the signal or status and its last words.
            RuntimeError: if it does not start.
        """
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise EOFError(self._death()) from error
        return self._read_line(timeout)

    def close(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # what it did not read before it ended
                stream.close()
        self._process = None

    def _read_line(self, timeout: float) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        # In slices, since time in which this process is stopped as well does not count.
        left = timeout
        while not select.select([self._process.stdout], [], [], min(left, SLICE))[0]:
            left -= SLICE
            if left <= 0:
                self.close()
                raise TimeoutError(f"no answer within {timeout:.0f} s")
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise EOFError(self._death())
        return line.decode().rstrip("\n")

    def _death(self) -> str:
        assert self._process is not None
        code = self._process.wait()
        self.close()
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        words = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        cause = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        return f"process ended with {cause}: {' '.join(words)[:200]}"


class Closable(Protocol):
    def close(self) -> None: ...


Asked = TypeVar("Asked", bound=Closable)
Question = TypeVar("Question")
Answer = TypeVar("Answer")


def ask_all(
    workers: Sequence[Asked],
    questions: Sequence[Question],
    ask: Callable[[Asked, Question], Answer],
) -> Iterator[Answer]:
    """Answers of workers, in any order. Each is asked in one thread at a time, and closed then.

    Raises:
        Exception: what `ask` raised; no more is asked then.
    """
    idle: queue.SimpleQueue[Asked] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)

    def work(question: Question) -> Answer:
        worker = idle.get()
        try:
            return ask(worker, question)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(len(workers))
    try:
        for future in as_completed([pool.submit(work, question) for question in questions]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        for worker in workers:
            worker.close()
