"""A process that answers lines on its standard input with lines of JSON."""

from __future__ import annotations

import json
import queue
import select
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """Asks such a process, and starts it anew when a question kills it.

    Its first line, a list, says what it can be asked: `names`.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> None:
        """`timeout`: seconds for an answer."""
        self.command = command
        self.environment = environment
        self.timeout = timeout
        self.process: subprocess.Popen[str] | None = None
        self.names: list[str] = []

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, env=self.environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.names = json.loads(self._read())

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def _read(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.timeout)
        line = self.process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            raise TimeoutError("no answer" if not ready else "the process ended")
        return line

    def check(self, name: str) -> dict[str, Any]:
        """The answer, or one with the status "crash"."""
        try:
            if self.process is None:
                self.start()
            assert self.process is not None
            assert self.process.stdin is not None
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()
            return json.loads(self._read())  # type: ignore[no-any-return]
        except (TimeoutError, BrokenPipeError) as error:
            self.stop()
            return {"entry": name, "status": "crash", "samples": 0, "reasons": [str(error)]}


def answers_of(workers: Sequence[Worker], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Asks several workers, each one question at a time; answers in the order of names."""
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        free.put(worker)

    def check(name: str) -> dict[str, Any]:
        worker = free.get()
        try:
            return worker.check(name)
        finally:
            free.put(worker)

    with ThreadPoolExecutor(len(workers)) as pool:
        yield from pool.map(check, names)
    for worker in workers:
        worker.stop()


def known(path: Path) -> dict[str, dict[str, Any]]:
    """The answers that a file holds, a line for each."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {answer["entry"]: answer for answer in map(json.loads, lines)}


def write(path: Path, answers: Mapping[str, Mapping[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(answer) + "\n" for answer in answers.values()))
