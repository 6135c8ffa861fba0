"""What `tune` has measured so far, on disk line by line: a stopped run can be taken up again.

The file lies beside that of the results and goes when they are written.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
# Gives what was measured under a name, or measures it.
Remember = Callable[[str, Callable[[], Any]], Any]


def measure_anew(name: str, measure: Callable[[], Result]) -> Result:
    """Remembers nothing."""
    return measure()


class Journal:
    """Measurements by name; values are what JSON holds.

    Args:
        file: where they are kept; None: nowhere.
        conditions: under which measurements hold. A file with others is begun anew.
    """

    def __init__(self, file: Path | None, conditions: dict[str, Any]) -> None:
        # What is there and no file (a pipe, say) is left alone.
        self.file = file = None if file is None or (file.exists() and not file.is_file()) else file
        self.found: dict[str, Any] = {}
        if file is None:
            return
        first, *others = _lines(file) or [None]
        if first == conditions:
            for line in others:
                if isinstance(line, list) and len(line) == 2:
                    self.found[str(line[0])] = line[1]
        # Without what cannot be read.
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole = [conditions, *([name, value] for name, value in self.found.items())]
        file.write_text("".join(json.dumps(line) + "\n" for line in whole))

    def remember(self, name: str, measure: Callable[[], Any]) -> Any:
        """What was measured under a name before, else what `measure` returns, which is kept."""
        if name not in self.found:
            self.found[name] = measure()
            if self.file is not None:
                with self.file.open("a") as stream:
                    stream.write(json.dumps([name, self.found[name]]) + "\n")
        return self.found[name]

    def remove(self) -> None:
        """Removes the file: the results are written elsewhere."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def _lines(file: Path) -> list[Any]:
    """The lines that can be read; the last one of a run that was killed may not be whole."""
    lines = []
    with contextlib.suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            lines.append(json.loads(line))
    return lines
