"""Packages made by torch._inductor.aoti_compile_and_package, loaded by another process."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop

from tests.support import run_python
from torch_outboard import _C
from torch_outboard.inductor import host_code

needs_shared_memory = pytest.mark.skipif(
    not _C.shares_host_memory(0), reason="the host does not reach the device's memory"
)


def packaged(model: nn.Module, example: torch.Tensor, path: Path, rows: str = "") -> None:
    """Compiles a model ahead of time; `rows` names an argument whose first size is open."""
    sizes = {rows: {0: torch.export.Dim("rows", min=2, max=64)}} if rows else None
    program = torch.export.export(model, (example,), dynamic_shapes=sizes)
    torch._inductor.aoti_compile_and_package(program, package_path=str(path))


@pytest.mark.slow
@needs_shared_memory
def test_a_package_for_another_process(device, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval()
    x = torch.randn(5, 6)
    torch.save((x, model(x).detach()), tmp_path / "values.pt")
    model = model.to(device)
    path = tmp_path / "model.pt2"
    packaged(model, x.to(device), path, rows="input")
    assert all(parameter.device == device for parameter in model.parameters())
    lines = run_python(
        f"""
import torch
x, expected = torch.load({str(tmp_path / "values.pt")!r})
model = torch._inductor.aoti_load_package({str(path)!r})
for repeats in (1, 3):
    y = model(x.repeat(repeats, 1).to({str(device)!r}))
    torch.testing.assert_close(y.cpu(), expected.repeat(repeats, 1))
    print(y.device)
""",
        timeout=200,
    ).splitlines()
    assert lines == [str(device)] * 2


class Flow(nn.Module):
    """Runs graphs within its graph, or attention."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer = kind, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x = self.layer(x)
        if self.kind == "attention":
            q = x.view(1, 2, 3, 4)
            attend = nn.functional.scaled_dot_product_attention
            return (attend(q, q.sin(), q.cos(), is_causal=True),)
        if self.kind == "cond":
            return (torch.cond(x.sum() > 0, lambda x: x.sin() * 2, lambda x: x.exp(), (x,)),)
        if self.kind == "while_loop":
            start = x.new_zeros(1)
            return while_loop(lambda i, x: (i < 5).all(), lambda i, x: (i + 1, x * 1.5), (start, x))
        if self.kind == "scan":
            return scan(lambda c, x: (c + x, c * x), x[0].clone(), x)
        return (associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic"),)


@pytest.mark.slow
@needs_shared_memory
@pytest.mark.parametrize("kind", ["cond", "while_loop", "scan", "associative_scan", "attention"])
def test_graphs_within_are_packaged(kind: str, device, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, x = Flow(kind), torch.randn(6, 4)
    expected = [model(sign * x) for sign in (1, -1)]
    model = model.to(device)
    path = tmp_path / "model.pt2"
    packaged(model, x.to(device), path)
    package = torch._inductor.aoti_load_package(str(path))
    for sign, want in zip((1, -1), expected, strict=True):
        got = package(sign * x.to(device))
        got = got if isinstance(got, (tuple, list)) else (got,)
        assert all(value.device == device for value in got)
        torch.testing.assert_close([value.cpu() for value in got], list(want))


class Draws(nn.Module):
    """Random numbers by functions of the host, and by operators of the device."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        kept = nn.functional.dropout(x, 0.3)
        noise = torch.randn_like(x)
        indices = torch.randint(7, (x.shape[0], 3), device=x.device)
        chosen = torch.multinomial(x.softmax(-1), 2)
        return kept + torch.rand_like(x), noise, indices, chosen, torch.bernoulli(x.sigmoid())


@pytest.mark.slow
@needs_shared_memory
def test_draws_are_packaged(device, tmp_path: Path) -> None:
    """A package draws what eager mode draws for the same seed, in a process that loads it, too."""
    x = torch.randn(6, 8)
    torch.manual_seed(5)
    expected = [Draws()(x.to(device)) for _ in range(2)]
    torch.save((x, [[part.cpu() for part in parts] for parts in expected]), tmp_path / "values.pt")
    path = tmp_path / "model.pt2"
    packaged(Draws(), torch.zeros(4, 8, device=device), path, rows="x")
    lines = run_python(
        f"""
import torch
x, expected = torch.load({str(tmp_path / "values.pt")!r})
model = torch._inductor.aoti_load_package({str(path)!r})
x = x.to({str(device)!r})
torch.manual_seed(5)
for parts in expected:
    torch.testing.assert_close([y.cpu() for y in model(x)], parts, rtol=0, atol=0)
    print("the same")
before = torch.get_rng_state(), torch.get_device_module(x.device).get_rng_state()
first, second = model(x)[1], model(x)[1]
print(bool((first == second).any()), torch.equal(torch.get_rng_state(), before[0]))
torch.get_device_module(x.device).set_rng_state(before[1])
print(torch.equal(model(x)[1], first))
""",
        timeout=200,
    ).splitlines()
    assert lines == ["the same", "the same", "False True", "True"]


@pytest.mark.by_turns(4)
@needs_shared_memory
def test_draws_that_a_package_lacks_are_refused(device) -> None:
    class Within(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + torch.rand_like(x), torch.sin, (x,))

    class Extension(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.package_test.jitter(x)

    with torch.library._scoped_library("package_test", "DEF") as library:
        library.define("jitter(Tensor x) -> Tensor", tags=torch.Tag.nondeterministic_seeded)
        library.impl("jitter", lambda x: x + torch.rand_like(x), "CompositeExplicitAutograd")
        torch.library.register_fake("package_test::jitter", torch.empty_like, lib=library)
        for model in (Within(), Extension()):
            program = torch.export.export(model, (torch.zeros(3, device=device),))
            with pytest.raises(Exception, match="draws random numbers"):
                torch._inductor.aoti_compile_and_package(program)


def test_memory_of_its_own_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_C, "shares_host_memory", lambda device: False)
    with pytest.raises(NotImplementedError, match="the host does not share the memory"):
        host_code.check_memory({0})
