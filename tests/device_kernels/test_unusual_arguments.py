"""Unusual arguments of which device kernels once made something else than CPU.

The sweep over arguments (`tests/opinfo/arguments`) makes all; these are one of each kind.
"""

from __future__ import annotations

import pytest
import torch

from tests.opinfo.arguments.calls import calls_of
from tests.opinfo.arguments.checks import check_variation
from tests.opinfo.arguments.isolated import run_each
from tests.opinfo.arguments.variations import variations
from tests.opinfo.checks import EntryResult

pytestmark = pytest.mark.by_turns(3)

CASES = {
    # Samples that are missing were read from beyond the tensor.
    "aten::fractional_max_pool2d": ("random_samples of shape (0,)",),
    "aten::fractional_max_pool3d": ("random_samples with dimension 2 of size 0",),
    "aten::fractional_max_pool3d_backward": ("self of dtype int64",),
    "aten::max_pool3d_with_indices": ("stride = [2**33, 2, 2]",),
    "aten::huber_loss": ("reduction = 5", "reduction = -1"),
    "aten::mish.out": ("out of dtype complex64",),
    "aten::clamp.out": ("out of dtype complex64", "self of dtype int64"),
    "aten::relu.out": ("out of dtype complex64",),
    "aten::lerp.Tensor_out": ("out of dtype complex64",),
    "aten::mish_backward": ("self of dtype bool",),
    "aten::_foreach_lerp_.Scalar": ("tensors1 with the last of dtype int64",),
    "aten::_foreach_lerp.List": ("tensors1 with the last of dtype bool",),
    "aten::lerp.Scalar": ("end of dtype int64",),
    # The gradient that is given was not read.
    "aten::glu_backward_jvp": ("as recorded",),
    "aten::cumsum": ("dtype = complex64",),
    "aten::_cdist_forward": ("p = 1e+300", "compute_mode = -1"),
    "aten::_fused_adam_": ("beta1 = -1.0", "amsgrad = False"),
    "aten::index_add": ("self with dimension 1 of size 0",),
    "aten::_index_put_impl_": ("self with 0 dimensions", "values on the host"),
    "aten::_adaptive_avg_pool2d_backward": ("self on the host", "self of dtype int64"),
    "aten::isposinf.out": ("out of dtype float32",),
    # Terms that are 0 ended the sum.
    "aten::special_zeta.self_scalar": ("self = 2**31",),
    "aten::tril_indices": ("col = 2**33",),
    "aten::round.decimals": ("decimals = 2**31",),
    "aten::linalg_vector_norm": ("dtype = float16",),
}


def test_unusual_arguments(device: torch.device) -> None:
    differences = []
    for overload, labels in CASES.items():
        found = {v.label: v for v in variations(next(calls_of(overload)))}
        for label in labels:
            on_cpu = next(run_each([found[label].call]))
            difference = check_variation(found[label], on_cpu, device, EntryResult())
            differences += [f"{overload}: {label}: {difference}"] if difference else []
    assert not differences, "\n".join(differences)
