"""What tests share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run_python(code: str, *arguments: str, timeout: float = 120, **env: str | None) -> str:
    """Runs code in a fresh Python and returns what it printed.

    Args:
        code: the program, indented or not.
        arguments: `sys.argv[1:]`.
        timeout: seconds.
        env: environment variables to set on top of this process's; None removes one.

    Raises:
        AssertionError: if it exits with another status than 0, with its output.
    """
    result = try_python(code, *arguments, timeout=timeout, **env)
    assert result.returncode == 0, (
        f"exit status {result.returncode}\n--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
    )
    return result.stdout


def try_python(
    code: str, *arguments: str, timeout: float = 120, **env: str | None
) -> subprocess.CompletedProcess[str]:
    """Like `run_python`, but returns whatever happened."""
    environment = dict(os.environ)
    for name, value in env.items():
        environment.pop(name, None)
        if value is not None:
            environment[name] = value
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
