"""Calls of OpenCL that the host makes for operators, counted on a GPU that does nothing."""

import json

import pytest

from benchmarks.launch_path import stub
from tests.device_kernels.processes import run_program

pytestmark = pytest.mark.by_turns(2)

COUNT = """
    import json

    from benchmarks.launch_path.stub import Calls
    from benchmarks.launch_path.works import WORKS

    works, names = (argument.split(";") for argument in sys.argv[1:])
    calls, found = Calls(), {}
    for work in works:
        call = WORKS[work]("ocl")
        for _ in range(5):
            call()
        before = [calls[name] for name in names]
        for _ in range(4):
            call()
        found[work] = {name: calls[name] - was for name, was in zip(names, before)}
    print(json.dumps(found))
"""
WAITS = (
    "clWaitForEvents",
    "clFinish",
    "blocking",
    "clEnqueueReadBuffer",
    "clEnqueueReadBufferRect",
)
LAUNCH, ARGUMENT = "clEnqueueNDRangeKernel", "clSetKernelArg"
STEPS = ("step of an MLP", "the same, autocast to bfloat16")
# Arguments that a launch sets again. A sum has its result in one of two locations in turn: as an
# operand and as the result.
AGAIN = {"mul into out": 0, "x.add_(y)": 0, "y = y + x": 2}


def test_calls_of_four_calls(tmp_path):
    """Training steps do not wait; arguments of the launch before are not set again."""
    library = stub.build(tmp_path)
    names = (LAUNCH, ARGUMENT, *WAITS)
    settings = stub.settings(library) | {"OUTBOARD_WORK_IN_FLIGHT": "0"}
    printed = run_program(COUNT, ";".join((*STEPS, *AGAIN)), ";".join(names), **settings)
    found = json.loads(printed)
    for step in STEPS:
        assert found[step][LAUNCH] > 4 * 20, step
        assert {name: found[step][name] for name in WAITS} == dict.fromkeys(WAITS, 0), step
    for work, most in AGAIN.items():
        assert found[work][LAUNCH] == 4, work
        assert found[work][ARGUMENT] <= 4 * most, work
