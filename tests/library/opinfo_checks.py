"""Entries of PyTorch's operator database by a library (run by test_library_drivers.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.opinfo.worker import Answer, WorkerProcess

ENTRIES = {
    "float32": """addmm addmv addbmm baddbmm bmm mm mv dot nn.functional.linear
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
    nn.functional.conv_transpose2d nn.functional.conv_transpose3d""",
    "int64": "addmm mm nn.functional.conv2d",
    "complex64": "addmm baddbmm bmm mm",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    access = os.environ.get("OUTBOARD_HOST_ACCESS", "")
    process = WorkerProcess("", access, timeout=240, way="device")
    yield process
    process.close()


@pytest.mark.parametrize(
    ("dtype", "entry"), [(dtype, entry) for dtype in ENTRIES for entry in ENTRIES[dtype].split()]
)
def test_entry(worker: WorkerProcess, dtype: str, entry: str) -> None:
    answer: Answer = worker.check(entry, dtype)
    reasons = [f"{f['check']}, sample {f['sample']}: {f['reason']}" for f in answer.failures]
    assert answer.status in ("right", "excluded"), "\n".join([answer.status, *reasons])
    name = entry.removeprefix("nn.functional.")
    operators = {"linear": ("aten::addmm", "aten::mm")}.get(name, (f"aten::{name}",))
    if name.startswith("conv"):
        operators = ("aten::convolution", "aten::convolution_backward")
    on_device = {op for op, on in answer.served(on_device=True) if on == dtype}
    assert on_device & set(operators), on_device
