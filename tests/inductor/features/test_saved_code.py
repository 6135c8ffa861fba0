"""Compiled code that programs save: by `standalone_compile`, and as artifacts of all caches."""

from pathlib import Path

import torch
from torch import Tensor
from torch._inductor import CompiledArtifact, standalone_compile
from torch._inductor.utils import fresh_cache
from torch.fx.experimental.proxy_tensor import make_fx

from tests.inductor.support import check


def _function(x):
    return ((x + 1).relu() @ x.t(),)


def test_a_graph_alone(device: torch.device, tmp_path: Path):
    x = torch.randn(8, 16)
    there, expected = x.to(device), _function(x)[0]
    artifact = standalone_compile(make_fx(_function)(there), [there])
    torch.testing.assert_close(artifact(there)[0].cpu(), expected)
    for form in ("binary", "unpacked"):
        path = str(tmp_path / form)
        artifact.save(path=path, format=form)
        with fresh_cache():
            loaded = CompiledArtifact.load(path=path, format=form)
            torch.testing.assert_close(loaded(there)[0].cpu(), expected)


def test_artifacts_of_caches(device: torch.device):
    """Code saved by another process is not compiled again."""
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


def test_what_triton_would_measure(device: torch.device):
    """Settings by which PyTorch times kernels of Triton change nothing here."""
    from torch._inductor import config

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return (x.softmax(-1) + 1).sum(-1) * x.sum(), y.cos() * 2

    settings = dict.fromkeys(("benchmark_fusion", "benchmark_combo_kernel", "combo_kernels"), True)
    with config.patch(settings):
        check(function, torch.randn(8, 16), torch.randn(5, 7), device=device)
