"""Wrong arguments, dtypes and layouts of some entries of the operator database.

`make test` checks one sample of every entry beside (`python -m tests.opinfo.sweep --dtype turn`).
"""

import os
from collections.abc import Iterator

import pytest

from tests.opinfo.worker import LAYOUTS, REFUSALS, WorkerProcess

REFUSING = """addmm arange cat clamp complex fft.rfft gather heaviside index_add
linalg.det masked_select nn.functional.conv2d nn.functional.softshrink pow sub sum topk"""
LAID_OUT = """nn.functional.group_norm nn.functional.conv2d index_select
nn.functional.scaled_dot_product_attention"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    access = os.environ.get("OUTBOARD_HOST_ACCESS") or "shared"
    process = WorkerProcess(
        "", access, timeout=240, placement=os.environ.get("OUTBOARD_PLACEMENT", "")
    )
    yield process
    process.close()


@pytest.mark.by_turns(7)
@pytest.mark.parametrize(
    ("entry", "kind"),
    [(e, REFUSALS) for e in REFUSING.split()] + [(e, LAYOUTS) for e in LAID_OUT.split()],
)
def test_entry(worker: WorkerProcess, entry: str, kind: str) -> None:
    answer = worker.check(entry, kind)
    reasons = [f"{f['check']}, sample {f['sample']}: {f['reason']}" for f in answer.failures]
    assert answer.status in ("right", "excluded"), "\n".join([answer.status, *reasons])
