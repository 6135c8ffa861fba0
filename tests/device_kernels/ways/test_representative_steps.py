"""The training steps that judge ways: they train, and give all kinds of work to the device."""

from __future__ import annotations

import pytest
import torch

from torch_outboard import fallback
from torch_outboard.tuning.representative_steps import STEPS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("perceptron", {"aten::addmm", "aten::native_layer_norm", "aten::gelu_backward"}),
        ("convolutional", {"aten::native_batch_norm", "aten::max_pool2d_with_indices"}),
        ("transformer", {"aten::embedding_dense_backward", "aten::_log_softmax"}),
    ],
)
def test_steps(device, name, expected):
    torch.manual_seed(0)
    step = STEPS[name](device)
    step()
    with fallback.report() as report:
        step()
    ways = {row.op: row.way for row in report.rows}
    assert expected <= {op for op, way in ways.items() if way == "device"}
    assert set(ways.values()) == {"device"}
