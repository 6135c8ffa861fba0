"""Compiled graphs start from nothing known and the same numbers, and leave no caches behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    import torch

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "inductor"))
    torch.compiler.reset()
    torch.manual_seed(0)
    yield
    torch.compiler.reset()


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A device with room for eight pointers and the word for reports."""
    from torch_outboard import _C
    from torch_outboard.inductor import target

    pointer = 16 if _C.device_properties(0).addressing == "handle" else 8
    monkeypatch.setattr(target, "_PARAMETER_BYTES", 9 * pointer)
    target.target_of.cache_clear()
    yield
    monkeypatch.undo()
    target.target_of.cache_clear()
