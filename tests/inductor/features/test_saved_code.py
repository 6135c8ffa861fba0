"""Compiled code that programs save: by `standalone_compile`, and as artifacts of all caches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._inductor import CompiledArtifact, standalone_compile
from torch._inductor.utils import fresh_cache
from torch.fx.experimental.proxy_tensor import make_fx


def _function(x):
    return ((x + 1).relu() @ x.t(),)


@pytest.mark.parametrize("form", ["binary", "unpacked"])
def test_a_graph_alone(form: str, device: torch.device, tmp_path: Path):
    x = torch.randn(8, 16)
    there = x.to(device)
    artifact = standalone_compile(make_fx(_function)(there), [there])
    torch.testing.assert_close(artifact(there)[0].cpu(), _function(x)[0])
    path = str(tmp_path / "saved")
    artifact.save(path=path, format=form)
    with fresh_cache():
        loaded = CompiledArtifact.load(path=path, format=form)
        torch.testing.assert_close(loaded(there)[0].cpu(), _function(x)[0])


def test_artifacts_of_caches(device: torch.device):
    """What another process saved compiles nothing here."""
    from torch._dynamo.utils import counters

    x = torch.randn(8, 16)

    def run() -> Tensor:
        torch.compiler.reset()
        counters.clear()
        given = x.to(device).requires_grad_()
        result = torch.compile(lambda x: (x.sin() + 1).square())(given)
        result.sum().backward()
        return given.grad.cpu()

    with fresh_cache():
        right = run()
        assert counters["aot_autograd"]["autograd_cache_miss"] == 1
        artifacts, _ = torch.compiler.save_cache_artifacts()
    with fresh_cache():
        assert torch.compiler.load_cache_artifacts(artifacts) is not None
        torch.testing.assert_close(run(), right)
        assert counters["aot_autograd"]["autograd_cache_hit"] == 1


@pytest.mark.parametrize("setting", ["benchmark_fusion", "benchmark_combo_kernel"])
def test_what_triton_would_measure(setting: str, device: torch.device):
    """Settings by which PyTorch times kernels of Triton change nothing here."""
    from torch._inductor import config

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.softmax(-1) + 1).sum(-1) * x.sum(), y.cos() * 2

    x, y = torch.randn(8, 16), torch.randn(5, 7)
    with config.patch({setting: True, "combo_kernels": True}):
        ours = torch.compile(function)(x.to(device), y.to(device))
    torch.testing.assert_close(tuple(part.cpu() for part in ours), function(x, y))
