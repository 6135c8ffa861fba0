"""What kernels are written for is what the device's compiler takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.inductor.support import checked_code
from torch_outboard import _C
from torch_outboard.inductor import target


@pytest.fixture
def refuses(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """Numbers of lanes that the compiler is said to refuse."""
    refused: set[int] = set()
    runs = target._runs
    monkeypatch.setattr(target, "_runs", lambda d, n: n not in refused and runs(d, n))
    target.target_of.cache_clear()
    yield refused
    monkeypatch.undo()
    target.target_of.cache_clear()


def test_the_compiler_takes_the_vectors(device: torch.device, refuses: set[int]):
    if not _C.runs_code(0):
        pytest.skip("the device has no compiler for kernels")
    lanes = target.target_of(torch.device(device.type, 0)).lanes
    assert lanes == 1 or target._runs(device, lanes)
    assert not target._runs(device, 5)  # OpenCL C has no such vectors


@pytest.mark.parametrize("lanes", [8, 4])
def test_kernels_with_fewer_lanes(device: torch.device, refuses: set[int], lanes: int):
    """As on a processor whose compiler refuses vectors beyond its registers."""

    def function(x, i, mask):
        y = (x.double() * 3 + i).sin().float()
        z = torch.where(mask, y, x.relu()).softmax(-1)
        whole = (i * 3 // 2).to(torch.uint8)
        return z, z.sum(0), z.argmax(-1), x.var(-1), i.cumsum(-1), whole, x[i]

    refuses.update(n for n in (16, 8, 4) if n > lanes)
    x = torch.randn(37, 41)
    arguments = x, torch.randint(0, 37, (37, 41)), x > 0.3
    code = checked_code(function, *arguments, device=device)
    if _C.device_properties(0).kind != "cpu":
        return
    assert f"ob_load_float{lanes}(" in code
    assert "float16(" not in code
