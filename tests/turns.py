"""Choice of the cases that `make test` runs in turn: a different part for every commit.

A turn has the name of the commit, or the one in TEST_TURN. The head of each run prints it, and with
it a run is repeated. Without git and TEST_TURN the name is empty, and the turn always the same.
"""

import os
import subprocess
from functools import cache
from pathlib import Path


@cache
def turn() -> str:
    """The name of this run's turn."""
    if named := os.environ.get("TEST_TURN"):
        return named
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    root = Path(__file__).parent
    try:
        answer = subprocess.run(command, cwd=root, capture_output=True, text=True)
    except OSError:  # there is no git
        return ""
    return answer.stdout.strip()


def number_of(text: str) -> int:
    """A number that differs from text to text."""
    # Not at the top: it loads PyTorch, and conftest.py chooses the device after it has loaded this.
    from torch_outboard.scoreboard import turns

    return turns.number_of(text)


def is_its_turn(name: str, of: int) -> bool:
    """Whether what has this name is checked in this turn; so is about one in `of`."""
    return number_of(f"{turn()} {name}") % of == 0
