"""Copies between host, device and other devices, against the same copy on the CPU."""

from collections.abc import Callable
from itertools import product

import pytest
import torch

from tests.support import run_python

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32,
    torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.float8_e4m3fn,
    torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
]  # fmt: skip

# Views of a base with 8 * 9 * 10 elements; all have 3 * 4 * 5 elements in the same sizes.
SIZES = (3, 4, 5)
BASE = 8 * 9 * 10
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda base: base[:60].view(SIZES),
    "offset": lambda base: base[7:67].view(SIZES),
    "permuted": lambda base: base[:60].view(5, 3, 4).permute(1, 2, 0),
    "inner steps": lambda base: base.view(8, 9, 10)[:3, :4, ::2],
    "rows apart": lambda base: base.view(8, 9, 10)[1:4, :4, 2:7],
    "middle steps": lambda base: base.view(8, 9, 10)[:3, 1::2, :5],
    "outer steps": lambda base: base[: 6 * 20].view(6, 4, 5)[1::2],
    "steps everywhere": lambda base: base.view(8, 9, 10)[1:6:2, :8:2, 1::2],
    "permuted steps": lambda base: base.view(8, 9, 10)[:5, 1:4, :8:2].permute(1, 2, 0),
}
# May be read, not written.
SOURCE_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    **LAYOUTS,
    "expanded inside": lambda base: base[:12].view(3, 4, 1).expand(SIZES),
    "expanded scalar": lambda base: base[3].expand(SIZES),
    # Broadcasting does these.
    "scalar": lambda base: base[5],
    "row": lambda base: base[:5],
    "column": lambda base: base[:4].view(4, 1),
    "matrix with steps": lambda base: base[:40].view(4, 10)[:, ::2],
    "windows": lambda base: base[:14].unfold(0, 5, 1)[:8].as_strided(SIZES, (2, 1, 1)),
}
DIRECTIONS = ["host to device", "device to host", "within device", "between devices"]


@pytest.fixture(params=DIRECTIONS)
def ends(request: pytest.FixtureRequest, device: torch.device) -> tuple[str, str]:
    """Where the source is and where the destination is."""
    here = f"{device.type}:0"
    if request.param == "between devices" and torch.accelerator.device_count() < 2:
        pytest.skip("needs two devices")
    return {
        "host to device": ("cpu", here),
        "device to host": (here, "cpu"),
        "within device": (here, here),
        "between devices": (f"{device.type}:1", here),
    }[request.param]


def arbitrary_bits(dtype: torch.dtype, elements: int = BASE, seed: int = 0) -> torch.Tensor:
    """Every bit pattern is as likely as any other: NaNs, infinities, denormals."""
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(2, (elements,), generator=generator).bool()
    size = elements * dtype.itemsize
    return torch.randint(256, (size,), generator=generator, dtype=torch.uint8).view(dtype)


def modest_values(dtype: torch.dtype, elements: int = BASE, seed: int = 0) -> torch.Tensor:
    """Values that every dtype can hold more or less."""
    real = (torch.arange(elements) * (2 * seed + 3)) % 7 + 1
    if dtype.is_complex:
        return torch.complex(real.double(), (8.0 - real.double())).to(dtype)
    return real.to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


def check_copy(
    ends: tuple[str, str],
    destination: torch.Tensor,
    source: torch.Tensor,
    layout: Callable[[torch.Tensor], torch.Tensor],
    source_layout: Callable[[torch.Tensor], torch.Tensor],
    what: object,
) -> None:
    """Copies views of fresh copies of the bases, compares all bytes of the destination's base."""
    expected = destination.clone()
    try:
        layout(expected).copy_(source_layout(source))
    except (RuntimeError, NotImplementedError) as refusal:
        moved_source, actual = source.to(ends[0]), destination.to(ends[1], copy=True)
        with pytest.raises(type(refusal)):
            layout(actual).copy_(source_layout(moved_source))
        return
    moved_source, actual = source.to(ends[0]), destination.to(ends[1], copy=True)
    layout(actual).copy_(source_layout(moved_source))
    result = actual.cpu()
    assert torch.equal(bits(result), bits(expected)), what
    assert torch.equal(bits(moved_source.cpu()), bits(source)), f"source changed: {what}"


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.complex128])
def test_every_layout_to_every_layout(ends: tuple[str, str], dtype: torch.dtype) -> None:
    source, destination = arbitrary_bits(dtype, seed=1), arbitrary_bits(dtype, seed=2)
    for (name, layout), (source_name, source_layout) in product(
        LAYOUTS.items(), SOURCE_LAYOUTS.items()
    ):
        check_copy(ends, destination, source, layout, source_layout, (source_name, name))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_with_steps(ends: tuple[str, str], dtype: torch.dtype) -> None:
    source, destination = arbitrary_bits(dtype, seed=1), arbitrary_bits(dtype, seed=2)
    for name, source_name in product(["offset", "steps everywhere"], repeat=2):
        check_copy(
            ends, destination, source, LAYOUTS[name], LAYOUTS[source_name], (source_name, name)
        )


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversion_to_every_dtype(ends: tuple[str, str], dtype: torch.dtype) -> None:
    destination = modest_values(dtype, seed=1)
    pairs = [("contiguous", "offset"), ("steps everywhere", "permuted")]
    pairs += [("permuted", "permuted steps"), ("inner steps", "expanded inside")]
    pairs += [("outer steps", "row")]
    for source_dtype, (name, source_name) in product(DTYPES, pairs):
        source, what = modest_values(source_dtype), (source_dtype, source_name, name)
        check_copy(ends, destination, source, LAYOUTS[name], SOURCE_LAYOUTS[source_name], what)


CONJUGATED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda z: z,
    "conj": lambda z: z.conj(),
    "neg": torch._neg_view,
    "conj and neg": lambda z: torch._neg_view(z.conj()),
}


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_conj_and_neg_bits_on_both_sides(ends: tuple[str, str], dtype: torch.dtype) -> None:
    def view(bit: str, layout: str) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda base: CONJUGATED[bit](LAYOUTS[layout](base))

    source, destination = modest_values(torch.complex64), modest_values(dtype, seed=2)
    views = list(product(CONJUGATED, ["contiguous", "permuted", "inner steps"]))
    for written, read in product(views, repeat=2):
        check_copy(ends, destination, source, view(*written), view(*read), (read, written))


def test_real_and_imaginary_views(ends: tuple[str, str]) -> None:
    source, destination = modest_values(torch.complex64), modest_values(torch.complex64, seed=2)
    views = [lambda z: z.imag, lambda z: z.conj().imag, lambda z: torch.view_as_real(z)[:, 1]]
    for view, source_view in product(views, repeat=2):
        check_copy(ends, destination, source, view, source_view, "parts")


LARGE_LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dense": lambda x: x,
    "transposed": lambda x: x.t(),
    "columns": lambda x: x[:, ::2],
    "rows": lambda x: x[::3],
    "wide": lambda x: x[:, 100:900],
    "narrow": lambda x: x[:, :8],
    "column": lambda x: x[:, :1],
    "steps transposed": lambda x: x[::2, ::2].t(),
}


def test_large(ends: tuple[str, str]) -> None:
    source = torch.arange(1003 * 1001, dtype=torch.int32).view(1003, 1001)
    for name, layout in LARGE_LAYOUTS.items():
        for source_layout in (layout, lambda x, layout=layout: layout(x).clone()):
            check_copy(ends, -source, source, layout, source_layout, name)


def test_zero_elements(ends: tuple[str, str]) -> None:
    for sizes in [(0,), (3, 0), (0, 2, 5)]:
        destination = torch.empty(sizes, device=ends[1])
        destination.copy_(torch.empty(sizes, device=ends[0]))
        assert destination.shape == sizes
    torch.empty(0, device=ends[1]).copy_(torch.ones(1, device=ends[0]))


def test_views_of_one_storage(device: torch.device) -> None:
    values = torch.arange(4000.0).view(4, 1000)
    for write, read in [
        (lambda x: x, lambda x: x[:]),
        (lambda x: x[:, ::2], lambda x: x[:, 1::2]),
        (lambda x: x[:, :500], lambda x: x[:, 500:]),
        (lambda x: x[::2], lambda x: x[1::2]),
    ]:
        expected, there = values.clone(), values.to(device)
        write(expected).copy_(read(expected))
        write(there).copy_(read(there))
        torch.testing.assert_close(there.cpu(), expected)
    there = torch.arange(9, device=device)
    for destination, source in (
        (there[1:], there[:-1]),
        (there.view(3, 3), there.view(3, 3).t()),
    ):
        with pytest.raises(RuntimeError, match="single memory location"):
            destination.copy_(source)
    torch.testing.assert_close(there.cpu(), torch.arange(9))


def test_what_is_refused_as_on_cpu(ends: tuple[str, str]) -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1, device=ends[1]).expand(4).copy_(torch.ones(4, device=ends[0]))
    destination = torch.zeros(2, 3, device=ends[1])
    for sizes in [(4,), (3, 2), (1, 2, 3)]:
        with pytest.raises(RuntimeError) as on_cpu:
            torch.zeros(2, 3).copy_(torch.ones(sizes))
        with pytest.raises(RuntimeError) as here:
            destination.copy_(torch.ones(sizes, device=ends[0]))
        assert str(here.value).splitlines()[0] == str(on_cpu.value).splitlines()[0]
    torch.testing.assert_close(destination.cpu(), torch.zeros(2, 3))
    with pytest.raises(NotImplementedError, match="no data"):
        destination.copy_(torch.zeros(3, device="meta"))


@pytest.mark.faults
def test_pinned_and_pageable_memory_without_blocking(device: torch.device) -> None:
    for elements in (10, 1_000_000):
        pinned = torch.arange(elements, dtype=torch.float32).pin_memory()
        pageable = pinned.clone()
        back = torch.empty(elements).pin_memory()
        back.copy_(pinned.to(device, non_blocking=True).add_(1), non_blocking=True)
        there = pageable.to(device, non_blocking=True)
        pageable.fill_(-1)  # it has been read
        made = there.to("cpu", non_blocking=True)  # PyTorch makes the result in pinned memory
        torch.accelerator.synchronize()
        torch.testing.assert_close(back, pinned + 1)
        torch.testing.assert_close(made, pinned)


@pytest.mark.faults
def test_copies_are_in_order(device: torch.device) -> None:
    """With pending work, from it and to it: waits that are missing show where work is late."""
    n = 200_000
    pinned = torch.full((n,), 3.0).pin_memory()
    there = pinned.to(device, non_blocking=True)
    copied = there.clone()
    grown = there.resize_(2 * n)[:n].clone()
    there.fill_(0)
    assert torch.equal(copied.cpu(), pinned)
    assert torch.equal(grown.cpu(), pinned)
    assert torch.equal(there[::2].cpu(), torch.zeros(n))
    grid = torch.zeros(400, 500, device=device)
    grid[:, 7:307].copy_(torch.ones(400, 300))
    assert grid.sum().item() == 400 * 300
    if torch.accelerator.device_count() < 2:
        return
    there, other = there[:n], torch.zeros(n, device=f"{device.type}:1")
    for i in range(4):
        pinned.fill_(i)
        there.copy_(pinned, non_blocking=True)
        other.copy_(there)
        there.fill_(-1)
        other[: n // 2].copy_(there[n // 2 :])
        expected = torch.full((n,), float(i))
        expected[: n // 2] = -1
        assert torch.equal(other.cpu(), expected), i


@pytest.mark.parametrize("access", ["shared", "separate"])
def test_failing_calls_raise_and_corrupt_nothing(access: str) -> None:
    """Every few calls of each kind fail, some late: a copy raises or is right."""
    kinds = (
        "copy_host_to_device:5 copy_device_to_host:4 copy_host_to_device_2d:3 "
        "copy_device_to_host_2d:3 copy_device_to_device:3 copy_device_to_device_2d:2 copy_peer:3 "
        "fill:3 queue_synchronize:7 event_record:5 event_wait:4"
    )
    rules = ",".join(f"fail={kind}:error:every" for kind in kinds.split())
    run_python(
        """
        import torch, torch_outboard

        device = torch_outboard.device_name()
        values = torch.arange(400 * 300, dtype=torch.float32).view(400, 300)
        counts = {"right": 0, "raised": 0}

        def attempt(make):
            try:
                result = make()
            except RuntimeError as error:
                assert "fault injection" in str(error).lower(), error
                counts["raised"] += 1
                return None
            counts["right"] += 1
            return result

        def insist(make):
            for _ in range(50):
                result = attempt(make)
                if result is not None:
                    return result
            raise AssertionError("50 attempts failed")

        layouts = [
            lambda x: x, lambda x: x.t(), lambda x: x[:, :200], lambda x: x[::2],
            lambda x: x[:, ::3], lambda x: x[3:9, 5:20],
        ]
        devices = [f"{device}:{i}" for i in range(min(2, torch.accelerator.device_count()))]
        for step in range(5):
            for layout in layouts:
                for where in devices:
                    expected = torch.full_like(values, step)
                    there = insist(lambda: expected.to(where))
                    pinned = (values + step).pin_memory()
                    for non_blocking in (False, True):
                        moved = attempt(
                            lambda: layout(there).copy_(layout(pinned), non_blocking=non_blocking)
                        )
                        if moved is not None:
                            layout(expected).copy_(layout(pinned))
                            actual = insist(lambda: layout(there).cpu())
                            assert torch.equal(actual, layout(expected)), step
                    insist(lambda: layout(there).zero_())
                    layout(expected).zero_()
                    source = insist(lambda: (values * 2).to(devices[-1]))
                    if attempt(lambda: layout(there).copy_(layout(source))) is not None:
                        layout(expected).copy_(layout(values * 2))
                        actual = insist(lambda: layout(there).cpu())
                        assert torch.equal(actual, layout(expected)), step
                    del pinned, source
        assert counts["raised"] >= 20, counts
        assert counts["right"] >= 100, counts
        """,
        OUTBOARD_HOST_ACCESS=access,
        OUTBOARD_FAULTS=f"delay_us=50,{rules}",
    )
