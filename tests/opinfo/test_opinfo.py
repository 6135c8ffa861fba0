"""Wrong arguments and layouts of some entries of the operator database.

`make test` checks one sample of every entry beside (`python -m tests.opinfo.sweep --dtype turn`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.opinfo.worker import REFUSALS, WorkerProcess


@pytest.fixture(scope="session")
def worker() -> Iterator[WorkerProcess]:
    access = os.environ.get("OUTBOARD_HOST_ACCESS") or "shared"
    process = WorkerProcess("", access, timeout=240, way=os.environ.get("OUTBOARD_WAY", ""))
    yield process
    process.close()


def check(worker: WorkerProcess, entry: str, dtype: str) -> None:
    answer = worker.check(entry, dtype)
    reasons = [f"{f['check']}, sample {f['sample']}: {f['reason']}" for f in answer.failures]
    assert answer.status in ("right", "excluded"), "\n".join([answer.status, *reasons])


REFUSING = """addmm arange cat clamp complex fft.rfft gather heaviside index_add
linalg.det masked_select nn.functional.conv2d nn.functional.softshrink pow sub sum topk"""


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("entry", REFUSING.split())
def test_refusals(worker: WorkerProcess, entry: str) -> None:
    check(worker, entry, REFUSALS)


LAYOUTS = """nn.functional.group_norm nn.functional.conv2d index_select
nn.functional.scaled_dot_product_attention"""


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("entry", LAYOUTS.split())
def test_layouts(worker: WorkerProcess, entry: str) -> None:
    check(worker, entry, "layouts")


@pytest.mark.slow
@pytest.mark.separate
def test_error_inputs_of_every_entry(device: torch.device) -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.opinfo.checks import EntryResult
    from tests.opinfo.refusals import check_errors

    wrong = {}
    for op in op_db:
        result = EntryResult()
        check_errors(op, device, result)
        wrong[op.full_name] = [f"{f.sample}: {f.reason}" for f in result.failures]
    assert not {entry: found for entry, found in wrong.items() if found}


def test_every_exclusion_names_an_entry() -> None:
    from torch.testing._internal.common_methods_invocations import op_db

    from tests.opinfo.exclusions import EXCLUSIONS

    names = {op.full_name for op in op_db}
    assert {exclusion.entry for exclusion in EXCLUSIONS} <= names
