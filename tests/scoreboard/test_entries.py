"""Wrong arguments, dtypes and layouts of some entries of the operator database.

`make test` checks one sample of every entry beside (`scoreboard --turn NAME`).
"""

import os
from collections.abc import Iterator

import pytest

from torch_outboard.scoreboard.answers import EXCLUDED, PASS
from torch_outboard.scoreboard.worker import Settings, WorkerProcess

REFUSING = """addmm arange cat clamp complex fft.rfft gather heaviside index_add
linalg.det masked_select nn.functional.conv2d nn.functional.softshrink pow sub sum topk"""
LAID_OUT = """nn.functional.group_norm nn.functional.conv2d index_select
nn.functional.scaled_dot_product_attention"""


@pytest.fixture(scope="module")
def worker() -> Iterator[WorkerProcess]:
    settings = Settings(
        access=os.environ.get("OUTBOARD_HOST_ACCESS") or "shared",
        placement=os.environ.get("OUTBOARD_PLACEMENT", ""),
    )
    process = WorkerProcess(settings, timeout=240)
    yield process
    process.close()


@pytest.mark.by_turns(7)
@pytest.mark.parametrize(
    ("entry", "suite"),
    [(e, "refusals") for e in REFUSING.split()] + [(e, "layouts") for e in LAID_OUT.split()],
)
def test_entry(worker: WorkerProcess, entry: str, suite: str) -> None:
    answer = worker.check(suite, entry)
    reasons = [f"{f['check']}, sample {f['sample']}: {f['reason']}" for f in answer.failures]
    assert answer.status in (PASS, EXCLUDED), "\n".join([answer.status, *reasons])
