"""Any driver call fails in a training step: an error is raised, and the next step is right."""

import os

import pytest

from tests.support import run_python

# Fails each function's call number 1, 2, ... in turn. A call that fails raises an error that names
# the driver, or the kit does without it; afterwards the same step gives the same numbers.
PROGRAM = """
import os, sys, warnings
import torch
from torch_outboard.drivers import faults
from tests.robustness.training import Training, survives
warnings.simplefilter("ignore")
training = Training(os.environ["OUTBOARD_DRIVER"])
for _ in range(2):
    expected = training.step()
most, silent = int(sys.argv[1]), []
faults.reset()
training.step()
calls = faults.calls()
for function, count in sorted(calls.items()):
    step = max(1, count // most)
    for nth in range(1, count + 1, step):
        faults.reset()
        faults.fail(function, nth)
        problem = survives(training.step)
        injected = faults.injected()
        faults.reset()
        survives(torch.accelerator.synchronize)  # raises what was deferred
        torch.accelerator.empty_cache()
        found = training.step()
        assert torch.equal(found, expected), (function, nth, problem)
        assert faults.misuses() == 0, (function, nth, problem)
        if injected and not problem:
            silent.append(f"{function}:{nth}")
print(len(calls), "functions;", "without an error:", *silent)
"""
SETTINGS = {
    "host, shared": {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_ACCESS": "shared"},
    "host, separate": {"OUTBOARD_DRIVER": "host", "OUTBOARD_HOST_ACCESS": "separate"},
    "ocl": {"OUTBOARD_DRIVER": "ocl", "OUTBOARD_PLACEMENT": "device"},
}
# Functions without which the kit does: numbers for people, and queries, after which it waits.
OPTIONAL = {"memory_info", "device_state", "queue_query", "event_query"}


def fail_calls(setting, most):
    environment = {**SETTINGS[setting], "OUTBOARD_FAULTS": "count", "OUTBOARD_CLANG": "none",
                   "OUTBOARD_FALLBACK_COPIED": "allow", "PYTHONPATH": os.getcwd()}  # fmt: skip
    printed = run_python(PROGRAM, str(most), timeout=1200, **environment)
    functions, silent = printed.splitlines()[-1].split(";")
    assert int(functions.split()[0]) > 8
    without = {name.partition(":")[0] for name in silent.partition(":")[2].split()}
    assert not without - OPTIONAL, printed


@pytest.mark.parametrize("setting", SETTINGS)
def test_first_and_later_calls(setting):
    fail_calls(setting, 3)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_many_calls(setting):
    fail_calls(setting, 100)
