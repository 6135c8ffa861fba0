"""A clock of the tests' own, and choices that are made within few calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import torch_outboard
from torch_outboard.inductor.ways import choice, program_time, sides


class Clock:
    """Stands for the module `time`; what a machine with other work to do adds is not measured."""

    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(program_time, "time", made)
    return made


@pytest.fixture
def chooses_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("OUTBOARD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(choice, "PATIENCE", 0.0)
    monkeypatch.setattr(program_time, "TIMED_SECONDS", 0.0)
    monkeypatch.setattr(sides, "_groups", {})


def ways_of(
    seconds: dict[str, float], calls: list[str], clock: Clock, per_element: bool = False
) -> dict[str, Callable[[], Any]]:
    """Ways of a graph that take their time and say that they were called."""

    def way(name: str) -> Callable[[], Any]:
        def run(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
            clock.now += seconds[name] * (inputs[0].numel() if per_element else 1)
            calls.append(name)
            return [inputs[0] + 1]

        return lambda: run

    return {name: way(name) for name in seconds}


# The head of a program that chooses within few calls.
AT_ONCE = """
import copy, itertools, sys, torch, torch_outboard
from torch_outboard.inductor.ways import choice, program_time
from torch_outboard.inductor.ways.remembered import remembered
choice.PATIENCE = program_time.TIMED_SECONDS = 0.0
name = torch_outboard.device_name()
torch.manual_seed(0)
"""


@pytest.fixture
def measuring(tmp_path: Any) -> dict[str, str]:
    """Settings of a process that measures its graphs, and finds what was chosen in the folder."""
    if not torch_outboard._C.shares_host_memory(0):
        pytest.skip("the host does not reach the device's memory")
    folders = {"OUTBOARD_CACHE_DIR": "kernels", "TORCHINDUCTOR_CACHE_DIR": "inductor"}
    paths = {name: str(tmp_path / folder) for name, folder in folders.items()}
    return {"OUTBOARD_WAY": "auto", **paths}
