"""A fixed slice of the operator sweep by the device's way; `tests.opinfo.sweep --way device` does
the rest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.opinfo.worker import Answer, WorkerProcess

# Entries and the operators that must launch device kernels in them.
SLICE = {
    "float32": """add mul div.floor_rounding clamp where nn.functional.gelu nn.functional.softplus
    nn.functional.elu remainder lerp""",
    # Not add and sub: with alpha, CPU rounds the product where its vectors leave elements over.
    "float16": "mul exp",
    "bfloat16": "nn.functional.silu",
    "int64": "bitwise_xor floor_divide",
    "uint8": "remainder",
    "bool": "logical_xor",
    "complex64": "mul abs",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    process = WorkerProcess("", "shared", timeout=240, way="device")
    yield process
    process.close()


def checked(worker: WorkerProcess, entry: str, dtype: str) -> Answer:
    answer = worker.check(entry, dtype)
    reasons = [f"{f['check']}, sample {f['sample']}: {f['reason']}" for f in answer.failures]
    assert answer.status in ("right", "excluded"), "\n".join([answer.status, *reasons])
    return answer


@pytest.mark.parametrize(
    ("dtype", "entry"),
    [(dtype, entry) for dtype, names in SLICE.items() for entry in names.split()],
)
def test_entry(worker: WorkerProcess, dtype: str, entry: str) -> None:
    answer = checked(worker, entry, dtype)
    operator = entry.removeprefix("nn.functional.").partition(".")[0]
    on_device = answer.served(on_device=True)
    assert any(op.startswith(f"aten::{operator}") and on == dtype for op, on in on_device), (
        on_device
    )


# Of each way in which kernels give results their strides.
LAYOUTS = """nn.functional.group_norm nn.functional.pad.reflect nn.functional.batch_norm
nn.functional.pixel_shuffle nn.functional.channel_shuffle nn.functional.pad.replicate
native_dropout_backward"""


@pytest.mark.parametrize("entry", LAYOUTS.split())
def test_layouts(worker: WorkerProcess, entry: str) -> None:
    checked(worker, entry, "layouts")
