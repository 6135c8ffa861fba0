"""Programs in forks of a Python that has imported PyTorch are what they are in a fresh one."""

import os
import signal
import subprocess
import sys

import pytest

from tests import forked_python

pytestmark = pytest.mark.slow

PROGRAMS = (
    ("print('said'); raise KeyError('word')", 1),
    ("import sys; sys.exit(3)", 3),
    ("import sys; sys.exit('why')", 1),
    ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL),
    ("import atexit; atexit.register(print, 'last'); print('first')", 0),
    ("import __main__; x = 5; print(__main__.x, __name__)", 0),
    ("import os, sys; print(sys.argv, os.getcwd(), os.environ['TEST_SAID'])", 0),
    ("import sys; print(sys.path, sys.flags.safe_path)", 0),
    ("import torch, threading; print(torch.ones(3, device=0), threading.active_count())", 0),
)


@pytest.fixture
def surroundings(monkeypatch, tmp_path):
    """The environment of the server, with a variable more, in a separate folder."""
    monkeypatch.chdir(tmp_path)
    driver = os.environ.get("OUTBOARD_DRIVER", "host")
    own = {"OUTBOARD_DRIVER": driver, "TEST_SAID": "this"}
    return {**forked_python._server().environment, **own}


def test_same_as_fresh(surroundings):
    for code, status in PROGRAMS:
        forked = forked_python.run_forked(code, ("a", "b c"), 60, surroundings)
        command = [sys.executable, "-P", "-c", code, "a", "b c"]
        fresh = subprocess.run(command, env=surroundings, capture_output=True, text=True)
        assert forked is not None
        assert forked.returncode == fresh.returncode == status
        assert forked.stdout == fresh.stdout
        assert forked.stderr.splitlines()[-1:] == fresh.stderr.splitlines()[-1:]


def test_programs_leave_nothing_to_the_next(surroundings):
    first = "import os, torch; torch.left = os.environ['LEFT'] = 'here'; import colorsys"
    then = "import os, sys, torch; print(hasattr(torch, 'left'), 'LEFT' in os.environ,"
    then += " 'colorsys' in sys.modules)"
    for code in (first, then):
        result = forked_python.run_forked(code, (), 60, surroundings)
    assert result.stdout == "False False False\n"


def test_too_long(surroundings):
    """The program is killed, and the next one runs."""
    code = "import time; print('said', flush=True); time.sleep(600)"
    with pytest.raises(subprocess.TimeoutExpired) as raised:
        forked_python.run_forked(code, (), 5, surroundings)
    assert raised.value.output == "said\n"
    assert forked_python.run_forked("print(1)", (), 60, surroundings).stdout == "1\n"
    # Variables that imports read need a fresh Python.
    changed = {**surroundings, "TORCH_LOGS": "+dynamo"}
    assert forked_python.run_forked("print(1)", (), 60, changed) is None
