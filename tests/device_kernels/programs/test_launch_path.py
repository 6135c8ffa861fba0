"""Calls of OpenCL that the host makes for operators, counted on a GPU that does nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.launch_path import stub
from tests.support import run_python

pytestmark = pytest.mark.by_turns(2)

ROOT = Path(__file__).resolve().parents[3]
COUNT = """
    import json
    import sys

    from benchmarks.launch_path.stub import Calls
    from benchmarks.launch_path.works import WORKS

    names = sys.argv[2:]
    calls, call = Calls(), WORKS[sys.argv[1]]("ocl")
    for _ in range(5):
        call()
    before = [calls[name] for name in names]
    for _ in range(4):
        call()
    print(json.dumps([calls[name] - was for name, was in zip(names, before)]))
"""
WAITS = (
    "clWaitForEvents",
    "clFinish",
    "blocking",
    "clEnqueueReadBuffer",
    "clEnqueueReadBufferRect",
)
LAUNCH, ARGUMENT = "clEnqueueNDRangeKernel", "clSetKernelArg"


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stub.build(tmp_path_factory.mktemp("stub"))


def count(library: Path, work: str, *names: str) -> dict[str, int]:
    """Calls in four calls of a work of benchmarks/launch_path, after the first ones."""
    settings = stub.settings(library) | {"OUTBOARD_WORK_IN_FLIGHT": "0"}
    printed = run_python(COUNT, work, *names, fresh=True, PYTHONPATH=str(ROOT), **settings)
    return dict(zip(names, json.loads(printed), strict=True))


@pytest.mark.parametrize("step", ["step of an MLP", "the same, autocast to bfloat16"])
def test_training_steps_do_not_wait(library: Path, step: str) -> None:
    found = count(library, step, LAUNCH, *WAITS)
    assert found.pop(LAUNCH) > 4 * 20
    assert found == dict.fromkeys(WAITS, 0)


# A sum has its result in one of two places in turn: as an operand and as the result.
@pytest.mark.parametrize(
    ("work", "most"), [("mul into out", 0), ("x.add_(y)", 0), ("y = y + x", 2)]
)
def test_arguments_of_the_launch_before_are_not_set_again(
    library: Path, work: str, most: int
) -> None:
    found = count(library, work, LAUNCH, ARGUMENT)
    assert found[LAUNCH] == 4
    assert found[ARGUMENT] <= 4 * most
