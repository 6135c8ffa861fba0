"""Fixtures of tests that need a device which compiles OpenCL C: `--configuration ocl`.

Compiling kernels is expensive on a processor, so the first of each test's cases and another one in
turn belong to `make test`, and all of them to `make test-full`: the others are marked slow. With
`test_every_family.py`, which is run as a whole, every family, kind and dtype is there.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.turns import number_of, turn
from torch_outboard import _C, fallback, placement

FOLDER = Path(__file__).parent
WHOLE = {"test_every_family.py"}  # what the slice must not lack


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    cases: dict[tuple[Path, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        sliced = FOLDER in item.path.parents and item.path.name not in WHOLE
        if sliced and item.get_closest_marker("slow") is None:
            cases[item.path, getattr(item, "originalname", item.name)].append(item)
    for same in cases.values():
        name = f"{turn()} {same[0].nodeid}"
        in_turn = 1 + number_of(name) % max(1, len(same) - 1)
        for number, item in enumerate(same):
            if number not in (0, in_turn):
                item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def device_placement(
    device: torch.device, pytestconfig: pytest.Config, request: pytest.FixtureRequest
) -> Iterator[None]:
    torch.manual_seed(number_of(request.node.nodeid) % 2**32)  # the same values in every run
    if not _C.runs_code(device.index):
        if pytestconfig.getoption("configuration") in ("ocl", "gpu", "clang"):
            pytest.fail("no device compiles code; `python -m torch_outboard doctor` says why")
        pytest.skip("the driver of this run compiles no code; use --configuration ocl")
    with placement.use("device"), fallback.policy(copied="allow"):
        yield


@pytest.fixture
def timed() -> Iterator[None]:
    """Launches are recorded with their times (launches.py)."""
    _C.testing.take_launch_times()
    _C.testing.time_launches(True)
    yield
    _C.testing.time_launches(False)
    _C.testing.take_launch_times()


def placements_of(report: fallback.Report) -> dict[str, str]:
    """Operators of a report: "device" for those that ran nowhere else on any dtype."""
    placements: dict[str, str] = {}
    for row in report.rows:
        if placements.get(row.op, "device") == "device":
            placements[row.op] = row.placement
    return placements
