"""A slice of the operator sweep; `python -m tests.opinfo.sweep` does the rest."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from tests.opinfo.worker import REFUSALS, WorkerProcess

# Every family of operators, and each kind of argument that the host way treats specially: lists,
# views, out=, complex bits, generators, resized results, several results, None, scalars.
SLICE = {
    "float32": """
    __getitem__ _native_batch_norm_legit add addmm as_strided baddbmm bernoulli block_diag bmm
    cat chunk clamp copysign cumsum diagonal div.no_rounding_mode einsum empty eq exp expand
    fft.rfft flip full_like gather index_add index_put isfinite item kthvalue lerp linalg.det
    linalg.qr linalg.svd log_softmax logsumexp lu_unpack masked_fill masked_scatter matmul
    max.reduction_with_dim median meshgrid.list_of_tensors mul multinomial nanmean
    native_layer_norm nn.functional.adaptive_avg_pool2d nn.functional.batch_norm
    nn.functional.conv2d nn.functional.cross_entropy nn.functional.dropout
    nn.functional.embedding_bag nn.functional.gelu nn.functional.grid_sample
    nn.functional.group_norm nn.functional.interpolate.bilinear nn.functional.linear
    nn.functional.max_pool2d nn.functional.scaled_dot_product_attention nn.functional.unfold
    nonzero normal pow resize_ roll scatter_add searchsorted softmax sort split std stack sub
    sum topk transpose tril unbind unique unfold uniform var_mean view where zeros_like
    """,
    "complex64": "abs add conj conj_physical imag linalg.inv matmul mul real resolve_neg sum "
    "view_as_real",
    "int64": "add bincount bitwise_and cumsum div.floor_rounding gather nonzero randint_like "
    "sort sum where",
    "bfloat16": "add exp log_softmax matmul nn.functional.gelu nn.functional.linear sum",
    "float16": "add matmul mul nn.functional.relu sum",
    "bool": "all any bitwise_not eq masked_select where",
    "uint8": "add sum sort",
    "float64": "add linalg.eigh nn.functional.layer_norm sum",
    "int32": "add argmax remainder scatter",
}


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


@pytest.mark.separate
@pytest.mark.parametrize("entry", SLICE["float32"].split())
def test_float32(worker: WorkerProcess, entry: str) -> None:
    check(worker, entry, "float32")


@pytest.mark.parametrize(
    ("dtype", "entry"),
    [(d, entry) for d, names in SLICE.items() if d != "float32" for entry in names.split()],
)
def test_other_dtypes(worker: WorkerProcess, dtype: str, entry: str) -> None:
    check(worker, entry, dtype)


REFUSING = """addmm arange cat clamp complex fft.rfft gather heaviside index_add
linalg.det masked_select nn.functional.conv2d nn.functional.softshrink pow sub sum topk"""


@pytest.mark.parametrize("entry", REFUSING.split())
def test_refusals(worker: WorkerProcess, entry: str) -> None:
    check(worker, entry, REFUSALS)


LAYOUTS = """nn.functional.group_norm nn.functional.conv2d index_select
nn.functional.scaled_dot_product_attention"""


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
