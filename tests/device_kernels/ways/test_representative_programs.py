"""The programs that judge ways: they give all kinds of work to the device, and nothing else."""

from __future__ import annotations

import pytest
import torch

from torch_outboard import fallback
from torch_outboard.tuning.representative_programs import PROGRAMS


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("perceptron, training", {"aten::addmm", "aten::native_layer_norm", "aten::gelu_backward"}),
        ("convolutional, training", {"aten::native_batch_norm", "aten::max_pool2d_with_indices"}),
        ("transformer, training", {"aten::embedding_dense_backward", "aten::_log_softmax"}),
        ("perceptron, inference", {"aten::addmm", "aten::gelu"}),
        ("convolutional, inference", {"aten::native_batch_norm"}),
        ("transformer, inference", {"aten::embedding", "aten::native_layer_norm"}),
    ],
)
def test_programs(device, name, expected):
    torch.manual_seed(0)
    step = PROGRAMS[name](device)
    step()
    with fallback.report() as report:
        step()
    ways = {row.op: row.way for row in report.rows}
    assert expected <= {op for op, way in ways.items() if way == "device"}
    assert set(ways.values()) == {"device"}
