"""Operators of other libraries: the example, and torchvision's where it is installed."""

from __future__ import annotations

import importlib.util

import pytest

from tests.examples.running import everywhere, run_example
from tests.support import run_python

pytestmark = pytest.mark.by_turns(6)


@pytest.mark.slow
@everywhere
def test_example(configuration):
    lines = run_example("custom_operators", configuration).splitlines()
    tests = "test_schema, test_autograd_registration, test_faketensor, test_aot_dispatch_dynamic"
    assert [line.split(maxsplit=1) for line in lines[:4]] == [
        [f"custom_example::{name}", tests] for name in ("hypotenuse", "swish", "limit", "cube")
    ]
    assert lines[4] == "derivative for custom_example::hypotenuse is not implemented"
    assert lines[5].endswith("the way it ran: device")


@pytest.mark.skipif(
    importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed"
)
def test_nms_of_torchvision():
    """Without a kernel of its own it runs on the host; a kernel for the device replaces that."""
    printed = run_python(
        """
        import torch, torchvision
        import torch_outboard
        from torch_outboard import fallback

        fallback.set_policy(copied="allow")
        device = torch_outboard.device_name()
        corners = torch.rand(50, 2)
        boxes = torch.cat((corners, corners + torch.rand(50, 2)), 1)
        scores = torch.rand(50)
        expected = torchvision.ops.nms(boxes, scores, 0.3)
        found = torchvision.ops.nms(boxes.to(device), scores.to(device), 0.3)
        print(torch.equal(found.cpu(), expected))
        kernel = lambda boxes, scores, iou_threshold: scores.argsort(descending=True)[:1]
        with torch_outboard.kernel("torchvision::nms")(kernel):
            found = torchvision.ops.nms(boxes.to(device), scores.to(device), 0.3)
        print(found.tolist() == expected[:1].tolist())
        """
    )
    assert printed.split() == ["True", "True"]
