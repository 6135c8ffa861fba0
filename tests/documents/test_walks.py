"""Commands of pages that are walked through print what the pages show behind them.

In an output, `...` stands for anything and a line of it for any lines; fractions and numbers of
three digits may be others.
"""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.documents.blocks import ROOT, Block, blocks
from tests.support import SLOWNESS, environment_without, kernels_run_on

DOCS = ROOT / "docs"
NAMES = ("start/models", "drivers", "kernels", "threads", "debugging")
PAGES = [ROOT / "README.md", *(DOCS / f"{name}.md" for name in NAMES)]
# Those that another run or machine may change: not 0, 1.0 and the like.
NUMBER = re.compile(r"-?\d+\.\d+e[-+]\d+|\d+\.\d*[1-9]\d*|\d+\.\d{2,}|\d{3,}")


def steps(page: Path) -> list[tuple[Block, Block]]:
    """Blocks of commands, and the outputs directly behind them."""
    found = list(blocks(page))
    return [
        (command, output)
        for command, output in pairwise(found)
        if command.language == "sh" and output.language == "text" and not output.relation
    ]


def pattern(shown: str) -> str:
    """A regular expression for an output."""
    lines = []
    for line in shown.strip().split("\n"):
        if line.strip() == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        words = []
        for word in line.split():
            around = [re.escape(part).replace(r"\.\.\.", ".*") for part in NUMBER.split(word)]
            words.append(r"[-+.e\d]+".join(around))
        lines.append(r"\s+".join(words) + r"\s*?\n")
    return r"^\s*".join(["", *lines])


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_walk(page: Path, tmp_path: Path) -> None:
    if not kernels_run_on("ocl"):
        pytest.skip("the driver `ocl` runs no kernels here")
    environment = environment_without("OUTBOARD_", "PYTEST_")
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    # What a walk installs goes into its own folder.
    environment |= {"PIP_TARGET": str(tmp_path / "packages"), "PIP_NO_DEPS": "1", "PIP_QUIET": "1"}
    environment["PYTHONPATH"] = f"{ROOT}:{environment['PIP_TARGET']}"
    for name in ("examples", "tests", "csrc", "pyproject.toml"):  # commands are typed in a clone
        (tmp_path / name).symlink_to(ROOT / name)
    assert steps(page)
    for command, output in steps(page):
        result = subprocess.run(
            ["bash", "-c", command.text],
            cwd=tmp_path, env=environment, text=True, timeout=280 * SLOWNESS, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert re.search(pattern(output.text), result.stdout + "\n", re.M), (
            f"{command.name} printed\n{result.stdout}\nand not\n{output.text}"
        )


def test_what_outputs_are_compared() -> None:
    assert re.search(pattern("loss 0.5\n...\ndone"), "a\nloss  0.25e-3\nb\nc\ndone\n", re.M)
    assert re.search(pattern("Error: ... of [x]"), "Error: all of [x]\n", re.M)
    assert not re.search(pattern("loss 0.5\ndone"), "loss 0.5\nb\ndone\n", re.M)
    assert not re.search(pattern("[1.0, 20]"), "[1.0, 21]\n", re.M)
