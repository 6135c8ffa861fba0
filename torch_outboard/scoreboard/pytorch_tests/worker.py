"""A process that runs tests of one file of PyTorch's, as it is told; it may crash or hang."""

from __future__ import annotations

import io
import json
import os
import sys
import time
import warnings

from torch_outboard.scoreboard.answers import CRASH, FAIL, HANG, Answer, failure
from torch_outboard.scoreboard.processes import LineProcess
from torch_outboard.scoreboard.run import TEST
from torch_outboard.scoreboard.worker import Settings


class TestProcess:
    """Runs the tests of a file and keeps a process for them running.

    Args:
        timeout: seconds that one test may take.
    """

    def __init__(self, settings: Settings, folder: str, file: str, timeout: float) -> None:
        self.file = file
        self.timeout = timeout
        self._process = LineProcess(
            [
                "-m",
                "torch_outboard.scoreboard.pytorch_tests.worker",
                folder,
                file,
                *settings.libraries,
            ],
            settings.variables(),
        )

    def names(self) -> list[str]:
        """Of all tests, as "name@cpu" and "name@device".

        Raises:
            RuntimeError: if the file cannot be imported.
        """
        found = json.loads(self._process.start())
        if isinstance(found, str):
            raise RuntimeError(found)
        return list(found)

    def run(self, name: str) -> Answer:
        """Runs a test; one that fails runs again in a process of its own, which counts."""
        start = time.monotonic()
        answer = self._ask(name)
        if answer.status == FAIL:
            self._process.close()
            answer = self._ask(name)
        answer.seconds = round(time.monotonic() - start, 2)
        return answer

    def _ask(self, name: str) -> Answer:
        try:
            status, reason = json.loads(self._process.ask(name, self.timeout))
        except TimeoutError as error:
            status, reason = HANG, str(error)
        except (EOFError, RuntimeError) as error:
            status, reason = CRASH, str(error)
        answer = Answer(name.rpartition("@")[0], status, self.file, checks=[TEST], samples=1)
        if reason:
            answer.failures = [failure(TEST, -1, reason, status)]
        return answer

    def close(self) -> None:
        self._process.close()


def serve(folder: str, file: str, *libraries: str) -> None:
    """The process's side."""
    import logging

    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    from torch_outboard import fallback
    from torch_outboard.loading.user_code import load_extensions
    from torch_outboard.scoreboard.pytorch_tests.loading import collect, load, run

    try:
        fallback.set_policy(copied="allow")
        load_extensions(libraries)
        tests = collect(load(folder, file), file)
    except Exception as error:
        print(json.dumps(f"{type(error).__name__}: {error}"), file=answers)
        return
    print(json.dumps(sorted(tests)), file=answers)
    for line in sys.stdin:
        sys.stdout = io.StringIO()
        print(json.dumps(run(tests[line.strip()])), file=answers)


if __name__ == "__main__":
    serve(*sys.argv[1:])
