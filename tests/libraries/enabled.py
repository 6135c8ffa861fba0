"""Programs in a separate process: once on CPU, and once on the device after `enable()`."""

import ast
import textwrap
from pathlib import Path
from typing import Any

import torch

from tests.support import ROOT, run_python

# Whatever the program leaves in `shown` is printed. `where` is "cpu" or the device's name.
BEFORE = f"""
import os, sys
sys.path.append({str(ROOT)!r})
where, library, folder, *settings = sys.argv[1:]
os.chdir(folder)
import torch
from torch_outboard import integrations
if where != "cpu":
    report = integrations.enable(library)
    assert report, report
torch.manual_seed(0)
"""

AFTER = """
assert all(row.state != "code differs" for row in integrations.report())
print("SHOWN", repr(shown))
"""


def shown(program: str, where: str, library: str, folder: Path, *settings: str) -> Any:
    """The results of a program on one device."""
    folder = folder / where
    folder.mkdir(exist_ok=True)
    out = run_python(
        BEFORE + textwrap.dedent(program) + AFTER,
        where,
        library,
        str(folder),
        *settings,
        timeout=300,
        ACCELERATE_TORCH_DEVICE=None,
    )
    (line,) = (line for line in out.splitlines() if line.startswith("SHOWN "))
    return ast.literal_eval(line.removeprefix("SHOWN "))


def same_losses(
    program: str, device: torch.device, library: str, folder: Path, *settings: str, **closeness: Any
) -> None:
    """Compares `shown = (type of the device that was used, losses)` with CPU's."""
    used, ours = shown(program, device.type, library, folder, *settings)
    assert used == device.type
    used, theirs = shown(program, "cpu", library, folder, *settings)
    assert used == "cpu"
    assert len(ours) == len(theirs) > 0
    torch.testing.assert_close(
        torch.tensor(ours), torch.tensor(theirs), **(closeness or {"rtol": 1e-4, "atol": 1e-4})
    )
