"""The operators PyTorch demands of every accelerator: memory, views, storages, values."""

from collections.abc import Callable

import pytest
import torch


def same_layout(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    assert actual.storage_offset() == expected.storage_offset()
    assert actual.dtype == expected.dtype


def shares_storage(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


# ---- empty and empty_strided


def test_new_tensors(device: torch.device) -> None:
    """The scoreboard compares layouts; this is about their storages."""
    for size, stride in (
        ((), ()), ((0,), (1,)), ((2, 0, 4), (4, 4, 1)), ((2, 3), (10, 2)), ((4,), (0,)),
    ):  # fmt: skip
        for dtype in (None, torch.bool, torch.complex128):
            actual = torch.empty_strided(size, stride, dtype=dtype, device=device)
            expected = torch.empty_strided(size, stride, dtype=dtype)
            same_layout(actual, expected)
            assert actual.device == device
            assert actual.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
            assert actual.untyped_storage().resizable()
            assert not actual.is_pinned()


def test_bad_requests_for_new_tensors(device: torch.device) -> None:
    with pytest.raises(RuntimeError, match=r"[Pp]in"):
        torch.empty(2, device=device, pin_memory=True)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.empty(-1, device=device)
    with pytest.raises(RuntimeError, match=r"negative dimension|[Nn]egative"):
        torch.empty_strided((-1,), (1,), device=device)
    with pytest.raises((RuntimeError, ValueError), match="99"):
        torch.empty_strided((2,), (1,), device=f"{device.type}:99")
    with pytest.raises(RuntimeError):
        torch.empty(2**62, device=device)
    with pytest.raises(RuntimeError):
        torch.ones(2, device=device).resize_(2**61)
    torch.testing.assert_close(torch.ones(2, device=device).cpu(), torch.ones(2))


def test_deterministic_filling(device: torch.device) -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5, device=device).isnan().all().item()
        assert torch.empty_strided((2, 2), (1, 2), device=device).isnan().all().item()
        highest = torch.iinfo(torch.int32).max
        assert (torch.empty(5, dtype=torch.int32, device=device) == highest).all().item()
        grown = torch.zeros(2, device=device).resize_(6)
        torch.testing.assert_close(grown.cpu().isnan(), torch.arange(6) >= 2)
    finally:
        torch.use_deterministic_algorithms(False)


# ---- Views

# Of the others the scoreboard looks at what they share.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "view of dtype": lambda x: x.view(torch.int32),
    "_reshape_alias": lambda x: torch.ops.aten._reshape_alias(x, [4, 6], [6, 1]),
    "detach": lambda x: x.detach(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_views(device: torch.device, name: str) -> None:
    values = torch.arange(24.0).view(2, 4, 3)
    there = values.to(device)
    actual, expected = VIEWS[name](there), VIEWS[name](values)
    same_layout(actual, expected)
    assert shares_storage(actual, there)
    torch.testing.assert_close(actual.cpu(), expected)


# ---- resize_


@pytest.mark.parametrize("size", [(), (0,), (3,), (2, 3), (4, 5), (100, 100)])
def test_resize_keeps_content(device: torch.device, size: tuple[int, ...]) -> None:
    values = torch.arange(6.0)
    there = values.to(device)
    address = there.data_ptr()
    assert there.resize_(size) is there
    expected = values.clone().resize_(size)
    same_layout(there, expected)
    kept = min(6, there.numel())
    torch.testing.assert_close(there.flatten()[:kept].cpu(), values[:kept])
    assert there.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
    assert (there.resize_(6).data_ptr() == address) == (len(size) < 2 or size == (2, 3))


def test_resize_of_views_and_formats(device: torch.device) -> None:
    """A view makes room behind its offset."""
    base = torch.arange(6.0, device=device)
    view = base[4:]
    view.resize_(20).fill_(7)
    assert view.storage_offset() == 4
    assert view.untyped_storage().nbytes() == 24 * 4
    assert shares_storage(view, base)
    assert view.tolist() == [7.0] * 20
    torch.testing.assert_close(base.cpu(), torch.tensor([0.0, 1, 2, 3, 7, 7]))

    there = torch.empty(0, device=device).resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert there.stride() == torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride()
    same = torch.empty(3, 2, device=device).t()
    same.resize_(2, 3)
    assert same.stride() == torch.empty(3, 2).t().resize_(2, 3).stride()
    there.resize_as_(torch.empty(7, device=device))
    assert there.shape == (7,)
    torch.ops.aten._resize_output_(there, [5], device)
    assert there.shape == (5,)


def test_storage_resize(device: torch.device) -> None:
    there = torch.arange(6.0, device=device)
    storage = there.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(24)
    there.copy_(torch.arange(6.0))
    storage.resize_(4 * 1000)
    assert storage.nbytes() == 4000
    torch.testing.assert_close(there.cpu(), torch.arange(6.0))
    storage.resize_(24)
    torch.testing.assert_close(there.cpu(), torch.arange(6.0))


# ---- set_


def test_set_tensor_and_storage(device: torch.device) -> None:
    part = torch.arange(12.0, device=device).view(3, 4)[1:, ::2]
    there = torch.empty(0, device=device).set_(part)
    same_layout(there, part)
    assert shares_storage(there, part)
    source = torch.arange(12.0, device=device)
    there = torch.empty(2, 2, device=device).set_(source.untyped_storage())
    assert there.tolist() == source.tolist()
    there.set_(source.untyped_storage(), 2, (3, 2), (3, 1))
    expected = torch.empty(0).set_(torch.arange(12.0).untyped_storage(), 2, (3, 2), (3, 1))
    same_layout(there, expected)
    assert shares_storage(there, source)
    torch.testing.assert_close(there.cpu(), expected)
    there.set_(source.untyped_storage(), 1, (4,))
    torch.testing.assert_close(there.cpu(), torch.arange(1.0, 5.0))
    there.set_(source, 3, (2,), (4,))
    torch.testing.assert_close(there.cpu(), torch.tensor([3.0, 7.0]))


def test_set_grows_the_storage_or_leaves_it(device: torch.device) -> None:
    source = torch.arange(4.0, device=device)
    there = torch.empty(0, device=device)
    there.set_(source.untyped_storage(), 0, (8,), (1,))
    assert source.untyped_storage().nbytes() == 32
    torch.testing.assert_close(there[:4].cpu(), torch.arange(4.0))
    there.set_()
    assert (there.shape, there.device) == ((0,), device)
    assert there.untyped_storage().nbytes() == 0
    torch.testing.assert_close(source.cpu(), torch.arange(4.0))


def test_bad_set(device: torch.device) -> None:
    there = torch.arange(4.0, device=device)
    with pytest.raises(RuntimeError):
        there.set_(torch.arange(4.0).untyped_storage())
    with pytest.raises(RuntimeError):
        there.set_(torch.arange(4.0))
    with pytest.raises(RuntimeError, match="offset"):
        there.set_(there.untyped_storage(), -1, (2,), (1,))
    with pytest.raises(RuntimeError, match="out of bounds"):
        there.set_(there.untyped_storage(), 100, (4,), (1,))
    torch.testing.assert_close(torch.ones(2, device=device).cpu(), torch.ones(2))


# ---- Values and streams


def test_item(device: torch.device) -> None:
    """The scoreboard has other dtypes."""
    for value, dtype in ((2**64 - 1, torch.uint64), (0.5, torch.float8_e4m3fn)):
        there = torch.tensor([0, value], dtype=dtype).to(device)
        assert there[1].item() == there[1:].item() == value
        with pytest.raises(RuntimeError, match=r"elements|scalar"):
            there.item()


def test_copy_from_and_resize(device: torch.device) -> None:
    values = torch.arange(6.0).view(2, 3)
    there = torch.empty(0, device=device)
    torch.ops.aten._copy_from_and_resize(values, there)
    torch.testing.assert_close(there.cpu(), values)
    back = torch.empty(0)
    torch.ops.aten._copy_from_and_resize(there, back)
    torch.testing.assert_close(back, values)


def test_record_stream(device: torch.device) -> None:
    side = torch.Stream(device)
    there = torch.ones(1000, device=device)
    there.record_stream(side)
    torch.view_as_complex(there.view(500, 2)).conj().record_stream(side)
    with pytest.raises(RuntimeError, match="parameter type"):
        there.record_stream("side")


# ---- fill_ and zero_


@pytest.mark.parametrize(
    "dtype",
    [torch.bool, torch.float16, torch.float32, torch.int64, torch.complex64, torch.complex128,
     torch.float8_e5m2],
    ids=str,
)  # fmt: skip
def test_fill_and_zero(device: torch.device, dtype: torch.dtype) -> None:
    """In layouts around the edges of what a driver's fill can do."""
    layouts: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x[7:],
        lambda x: x.view(10, 10).t(),
        lambda x: x.view(10, 10)[:, ::2],
        lambda x: x[50],
        lambda x: x[50:51].expand(5),
        lambda x: x[:0],
    ]
    for layout in layouts:
        expected = torch.ones(100).to(dtype)
        there = expected.to(device)
        value = 1 + 2j if dtype.is_complex else 3
        layout(there).fill_(value)
        layout(expected).fill_(value)
        assert torch.equal(there.cpu().view(torch.uint8), expected.view(torch.uint8))
        layout(there).zero_()
        layout(expected).zero_()
        assert torch.equal(there.cpu().view(torch.uint8), expected.view(torch.uint8))
