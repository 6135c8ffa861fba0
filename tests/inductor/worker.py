"""Processes that check entries of a list by name."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tests.line_process import LineProcess, ask_all


class Worker(LineProcess):
    """Its greeting is the list of what it can be asked, its answers are dictionaries."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> None:
        """`timeout`: seconds for an answer; the others as for LineProcess."""
        super().__init__(arguments, environment)
        self.timeout = timeout

    def names(self) -> list[str]:
        """Raises RuntimeError if it does not start."""
        return json.loads(self.start())

    def check(self, name: str) -> dict[str, Any]:
        """The answer, or one with the status "crash"."""
        try:
            return json.loads(self.ask(name, self.timeout))
        except (TimeoutError, EOFError, RuntimeError) as error:
            return {"entry": name, "status": "crash", "samples": 0, "reasons": [str(error)]}


def answers_of(workers: Sequence[Worker], names: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Of several workers that are asked at once, in any order."""
    return ask_all(workers, list(names), Worker.check)
