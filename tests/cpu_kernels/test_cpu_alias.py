"""The CPU tensors that host kernels get: pooled per thread, and safe for kernels that keep them."""

import gc
import weakref
from collections.abc import Iterator

import pytest
import torch
from torch.utils._pytree import tree_map

from tests.support import in_threads

pytestmark = pytest.mark.skipif(
    "not config.getoption('--configuration') in ('environment', 'shared', 'faults')",
    reason="copies, not aliases, where memory is separate",
)

kept: list[torch.Tensor] = []


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[torch.library.Library]:
    """Operators of a library of our own, with CPU kernels only."""
    library = torch.library.Library("alias_test", "FRAGMENT")
    library.define("keep(Tensor self) -> Tensor")
    library.define("tag(Tensor self) -> Tensor")
    library.define("grow_(Tensor(a!) self, int size) -> Tensor(a!)")

    def keep(x: torch.Tensor) -> torch.Tensor:
        kept.append(x)
        return x + 1

    def tag(x: torch.Tensor) -> torch.Tensor:
        assert not hasattr(x, "mark"), "another call's argument"
        x.mark = True
        return x + 1

    library.impl("keep", keep, "CPU")
    library.impl("tag", tag, "CPU")
    library.impl("grow_", lambda x, size: x.resize_(size), "CPU")
    yield library
    library._destroy()


SIZE = 300


def compiled(body: str) -> torch.jit.CompilationUnit:
    """TorchScript, whose interpreter moves the last reference to a tensor into the call."""
    return torch.jit.CompilationUnit(f"def call(x: Tensor):\n    return {body}\n")


def test_what_a_kernel_keeps_has_an_owner(device: torch.device) -> None:
    x = torch.arange(float(SIZE)).to(device)
    call = compiled("torch.ops.alias_test.keep(x + 1)").call
    kept.clear()
    for step in range(3):
        call(x + step)
    gc.collect()
    # Memory freed too early is allocated again here.
    others = [torch.full((SIZE,), -1.0, device=device) for _ in range(8)]
    torch.accelerator.synchronize()
    for step, tensor in enumerate(kept):
        torch.testing.assert_close(tensor, torch.arange(float(SIZE)) + step + 1)
    assert all(bool((other == -1).all()) for other in others)
    kept.clear()


def test_calls_with_the_last_reference(device: torch.device) -> None:
    x = torch.arange(float(SIZE))
    for body in (
        "torch.roll(x + 1, 1)",
        "torch.sort(x + 1)",
        "torch.ops.aten.sgn(x + 1)",
        "torch.cdist(x.reshape(-1, 3) + 1, x.reshape(-1, 3) - 1)",
        "torch.cat([x + 1, x + 2]).roll(1)",
        "torch.ops.aten.index(x + 1, [(x * 0).long()])",
    ):
        call = compiled(body).call
        for _ in range(4):
            found = tree_map(torch.Tensor.cpu, call(x.to(device)))
            torch.testing.assert_close(found, call(x))
    raising = compiled("torch.ops.aten.roll(x + 1, [1], [7])").call
    for _ in range(4):
        with pytest.raises(Exception, match="Dimension out of range"):
            raising(x.to(device))
    torch.testing.assert_close(torch.roll(x.to(device), 1).cpu(), torch.roll(x, 1))


def test_what_python_hung_on_an_argument_is_gone_in_the_next_call(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    for _ in range(3):
        torch.testing.assert_close(torch.ops.alias_test.tag(x).cpu(), torch.full((3,), 2.0))


def test_a_kernel_that_resizes_gives_the_device_new_memory(device: torch.device) -> None:
    x = torch.arange(4.0).to(device)
    view = x[:2]
    torch.ops.alias_test.grow_(x, 4096)
    x.fill_(3.0)
    assert x.shape == (4096,)
    torch.testing.assert_close(view.cpu(), torch.full((2,), 3.0))
    # The next calls take aliases from the pool; none may point into what was replaced.
    for size in (3, 4096):
        y = torch.full((size,), 2.0, device=device)
        torch.testing.assert_close(torch.sgn(y).cpu(), torch.ones(size))
    torch.testing.assert_close(x.cpu(), torch.full((4096,), 3.0))


def test_pooled_tensors_take_over_dtype_shape_strides_and_offset(device: torch.device) -> None:
    views = (lambda t: t, lambda t: t.t(), lambda t: t[1:, ::2], lambda t: t[:0], lambda t: t[2, 3])
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        host = torch.arange(24).reshape(4, 6).to(dtype)
        x = host.to(device)
        for view in (*views, *reversed(views)):
            torch.testing.assert_close(torch.roll(view(x), 1).cpu(), torch.roll(view(host), 1))


def test_bits_of_one_call_do_not_reach_the_next(device: torch.device) -> None:
    host = torch.tensor([1 + 2j, 3 - 4j])
    x = host.to(device)
    for _ in range(2):
        torch.testing.assert_close(torch.roll(x.conj(), 1).cpu(), torch.roll(host.conj(), 1))
        torch.testing.assert_close(torch.roll(x, 1).cpu(), torch.roll(host, 1))
        torch.testing.assert_close(torch.roll(x.imag, 1).cpu(), torch.roll(host.imag, 1))


def test_inference_mode_and_autograd_share_no_tensors(device: torch.device) -> None:
    x = torch.ones(3, device=device)
    for _ in range(2):
        with torch.inference_mode():
            assert torch.sgn(x).is_inference()
        result = torch.sgn(x)
        assert not result.is_inference()
        result.add_(1)


def test_threads_have_pools_of_their_own(device: torch.device) -> None:
    def work(seed: int) -> None:
        x = torch.full((seed + 1,), float(seed), device=device)
        for _ in range(200):
            torch.testing.assert_close(torch.roll(x, 1).cpu(), torch.full((seed + 1,), float(seed)))

    in_threads(work, 4)


def test_nothing_keeps_the_memory_of_a_dead_tensor(device: torch.device) -> None:
    module = torch.get_device_module(device)
    x = torch.ones(1 << 20, device=device)
    storage = weakref.ref(x.untyped_storage())
    torch.sgn(x)
    before = module.memory_allocated()
    del x
    gc.collect()
    assert module.memory_allocated() == before - (4 << 20)
    assert storage() is None or storage().nbytes() == 4 << 20
