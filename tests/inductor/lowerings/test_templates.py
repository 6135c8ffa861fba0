"""The pass over graphs that `max-autotune` asks for."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.compile_fx  # defines the operators
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from tests.inductor.support import check
from torch_outboard.inductor.lowerings import convolutions, products, templates

pytestmark = pytest.mark.usefixtures("always_fused")

MODE = "max-autotune-no-cudagraphs"


def test_a_graph_is_in_order_when_a_result_is_used_before_the_last_one(device):
    def function(x, w):
        image = torch.conv2d(x, w)
        early = image.sum()
        return early, (image @ image).relu(), image.relu() + x[:, :1]

    x, w = torch.randn(1, 3, 40, 40), torch.randn(2, 3, 1, 1)
    given = x.to(device), w.to(device)
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(tensor) for tensor in given]
        module = make_fx(function)(*fake)
    templates.UseTemplates()(module.graph)
    module.graph.lint()
    targets = [str(node.target) for node in module.graph.nodes]
    assert "outboard_convolutions.convolution.default" in targets
    assert "aten.convolution.default" not in targets
    module.recompile()
    actual = module(*given)
    torch.testing.assert_close(actual, function(x, w), check_device=False, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", [None, MODE])
def test_nothing_is_fused_unless_it_is_asked_for_and_faster(device, monkeypatch, mode):
    if mode == MODE:
        for module in (products, convolutions):
            monkeypatch.setattr(module, "_measured", lambda *given: False)

    def function(x, image, w):
        return (x @ x).relu(), torch.conv2d(image, w).relu()

    x, image, w = torch.randn(40, 40), torch.randn(2, 5, 9, 9), torch.randn(7, 5, 3, 3)
    check(function, x, image, w, device=device, tolerance=1e-4, mode=mode)
    assert not counters[device.type]["fused_products"]
    assert not counters[device.type]["fused_convolutions"]


def test_what_it_does_depends_on_files_and_device(monkeypatch):
    found = templates.UseTemplates().uuid()
    assert found == templates.UseTemplates().uuid()
    monkeypatch.setattr(templates, "hash_of_sources", lambda: b"of others")
    assert found != templates.UseTemplates().uuid()
