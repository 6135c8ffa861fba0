"""Programs of tests in separate processes, by device kernels."""

import subprocess
import textwrap

from tests.support import ROOT, run_python, try_python


def _program(code: str, settings: dict[str, str | None]) -> tuple[str, dict[str, str | None]]:
    """The code and the environment by which it can fork from a process that has PyTorch.

    Variables that only the kit reads do not keep it from that; others are set by the code.
    """
    kept = {name: value for name, value in settings.items() if name.startswith("OUTBOARD_")}
    others = {name: value for name, value in settings.items() if name not in kept}
    beginning = (
        f"import os, sys\nsys.path.insert(0, {str(ROOT)!r})\nos.environ.update({others!r})\n"
    )
    return beginning + textwrap.dedent(code), {"OUTBOARD_PLACEMENT": "device", **kept}


def run_program(code: str, *arguments: str, timeout: float = 120, **settings: str | None) -> str:
    """As `run_python`, with the tests importable and the placement `device`."""
    code, environment = _program(code, settings)
    return run_python(code, *arguments, timeout=timeout, **environment)


def try_program(
    code: str, *arguments: str, timeout: float = 120, **settings: str | None
) -> subprocess.CompletedProcess[str]:
    """As `try_python`, likewise."""
    code, environment = _program(code, settings)
    return try_python(code, *arguments, timeout=timeout, **environment)
