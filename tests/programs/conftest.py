"""Fixtures of the programs: their placements, and the comparison with CPU."""

from collections.abc import Callable, Iterator

import pytest
import torch

import torch_outboard
from tests.programs.comparison import RELATIVE, Program, Step, compare
from torch_outboard import _C, fallback, placement

# Drivers that compile; others have no device kernels.
COMPILING = {"ocl"}

# Tests that run at both placements by default on drivers that compile. Others run on the host with
# the driver `host`.
AT_BOTH = {"tests.programs.test_training"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "program_placement" in metafunc.fixturenames:
        compiles = torch_outboard.device_name() in COMPILING
        repeats = compiles and metafunc.module.__name__ not in AT_BOTH
        slow = [pytest.mark.slow] if repeats else []
        choices = [pytest.param("device")] if compiles else []
        choices.append(pytest.param("host", marks=slow))
        metafunc.parametrize("program_placement", choices, scope="function", indirect=True)


@pytest.fixture(autouse=True)
def program_placement(request: pytest.FixtureRequest, device: torch.device) -> Iterator[str]:
    """Where operators of a test run: on the "device" where it compiles, and on the "host"."""
    if request.param == "device":
        assert _C.runs_code(device.index), "the device compiles no code, or its compiler fails"
    with placement.use(request.param), fallback.policy(copied="allow"):
        yield request.param


@pytest.fixture(autouse=True)
def as_many_threads(device: torch.device, program_placement: str) -> Iterator[None]:
    """Gives this thread as many as the device's backward thread has, by which sums are cut.

    That one begins with the number that any thread has set before, a loader's as well.
    """
    found = []
    x = torch.ones(1, device=device, requires_grad=True)
    x.register_hook(lambda _: found.append(torch.get_num_threads()))
    x.sum().backward()
    before = torch.get_num_threads()
    torch.set_num_threads(found[0])
    yield
    torch.set_num_threads(before)


SameAsOnCpu = Callable[..., list[Step]]


@pytest.fixture
def same_as_on_cpu(device: torch.device, program_placement: str) -> SameAsOnCpu:
    """Compares a program with CPU: `same_as_on_cpu(program)`.

    The host's kernels are CPU's, so their results are the same bits. A program says
    `bitwise=False` where something of it adds in another order than CPU, and `relative` where it
    works in less than float32, or divides by differences.
    """

    def run(program: Program, *, bitwise: bool = True, relative: float = RELATIVE) -> list[Step]:
        return compare(program, device, bitwise and program_placement == "host", relative)

    return run
