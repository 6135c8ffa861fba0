"""Convolutions over the padded layout, for large maps on CPUs, against CPU kernels."""

import random

import pytest
import torch

from tests.device_kernels.images.test_convolution import check
from tests.device_kernels.launches import is_processor, launched, timed_launches
from tests.device_kernels.on_device import compare
from torch_outboard import _C

PADDED = {"pack_padded", "pack_weights", "padded_tiles"}
GRADIENTS = {"pack_padded", "padded_gradients", "sum_parts"}
LAST = {"memory_format": torch.channels_last}
# Channels, filters, sizes of images and of the kernel, options.
CASES = {
    "large map": (5, 9, (33, 47), (3, 3), {"padding": 1}),
    "rows shorter than a vector": (6, 8, (40, 5), (3, 3), {"padding": 1}),
    "tiles that are not full": (3, 13, (17, 31), (2, 4), {}),
    "steps": (4, 8, (37, 41), (3, 3), {"stride": 2, "padding": 1}),
    "steps over large kernels": (3, 8, (40, 42), (7, 7), {"stride": 2, "padding": 3}),
    "steps of 3 and 2": (4, 8, (40, 43), (4, 3), {"stride": (3, 2), "padding": (2, 0)}),
    "steps larger than kernels": (4, 8, (40, 41), (1, 2), {"stride": (2, 3)}),
    "dilation": (4, 8, (30, 33), (3, 3), {"dilation": (2, 3), "padding": 2}),
    "steps and dilation": (4, 8, (40, 41), (3, 3), {"stride": 2, "dilation": (2, 3), "padding": 3}),
    "groups": (4, 12, (30, 31), (3, 3), {"groups": 3, "padding": 1}),
    "padding beyond kernels": (4, 8, (20, 21), (3, 2), {"padding": (3, 2)}),
    "patches that are gathered": (9, 70, (6, 7), (3, 3), {"padding": 1}),
    "gathered with steps": (70, 65, (12, 9), (3, 3), {"padding": 1, "stride": 2}),
    "channels last": (5, 9, (33, 47), (3, 3), {"padding": 1, **LAST}),
    "steps, channels last": (4, 8, (37, 41), (3, 3), {"stride": 2, "padding": 1, **LAST}),
    "1d": (5, 7, (301,), (6,), {"stride": 2, "padding": 3, "dilation": 2}),
    "3d": (4, 8, (9, 10, 11), (3, 2, 3), {"padding": 1, "stride": (1, 2, 2)}),
    # Where the output was read from is only at odd indices of the padded width.
    "positions that no element meets": (
        8, 6, (9, 1), (3, 1), {"stride": (3, 2), "padding": (0, 3), "dilation": (2, 1)}
    ),
    **{
        f"{dtype}": (
            4, 6, (21, 35), (3, 3),
            {"padding": 1, "stride": (1, 2), "dtype": dtype, "tolerance": tolerance},
        )
        for dtype, tolerance in (
            (torch.float64, 1e-9), (torch.float16, 2e-2), (torch.bfloat16, 1e-1),
        )
    },
}  # fmt: skip
# Transposed, their results would be smaller than nothing.
ONE_WAY = {"steps larger than kernels", "positions that no element meets"}


@pytest.mark.parametrize(
    ("case", "transposed"),
    [*((case, False) for case in CASES), *((case, True) for case in CASES if case not in ONE_WAY)],
)
def test_cases(device, case, transposed):
    channels, filters, sizes, kernel, options = CASES[case]
    groups = options.get("groups", 1)
    weight = (channels * groups, filters // groups) if transposed else (filters, channels)
    check(
        device,
        (8, channels * groups, *sizes),
        (*weight, *kernel),
        **{"tolerance": 3e-4, "transposed": transposed, **options},
    )


def test_other_geometries(device):
    choice = random.Random(0).choice
    for _ in range(12):
        options = {
            "stride": (choice([1, 2, 3]), choice([1, 2])),
            "padding": (choice([0, 1, 2]), choice([0, 3])),
            "dilation": (choice([1, 2]), choice([1, 3])),
        }
        sizes = (choice([1, 9, 18]), choice([12, 27]))
        kernel = (choice([1, 2]), choice([1, 3, 4]))
        transposed = choice([False, True])
        if not transposed and sizes[0] + 2 * options["padding"][0] < 3:
            continue
        weight = (4, 5, *kernel) if transposed else (5, 4, *kernel)
        check(device, (4, 4, *sizes), weight, transposed=transposed, tolerance=3e-4, **options)


def test_more_images_than_are_packed_at_a_time(device):
    # 16 MiB hold 36 of them.
    check(device, (40, 8, 120, 120), (4, 8, 3, 3), padding=1, tolerance=2e-3)


@pytest.mark.parametrize("channels", [8, 32])  # the second by Winograd's algorithm
def test_gradients_that_do_not_lie_in_order(device, channels):
    """Expanded, transposed and with gaps between rows."""
    x, weight = torch.randn(4, channels, 24, 22), torch.randn(channels, channels, 3, 3)
    options = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, False])
    for gradient in (
        torch.randn(4, channels, 1, 1).expand(x.shape),
        torch.randn(4, channels, 22, 24).mT,
        torch.randn(5, channels + 4, 30, 40)[1:, 2 : channels + 2, 3:27, 5:27],
    ):
        backward, near = torch.ops.aten.convolution_backward, {"rtol": 3e-4, "atol": 1e-2}
        compare(device, backward, gradient, x, weight, None, *options, **near)


@pytest.mark.parametrize("channels", [4, 32])
def test_infinite_elements_reach_their_neighbours_alone(device, channels):
    x, weight = torch.randn(2, channels, 20, 18), torch.rand(32, channels, 3, 3) + 1
    for index in ((0, 1, 0, 17), (1, 2, 19, 0), (0, 3, 19, 17)):
        x[index] = torch.inf
    expected = torch.conv2d(x, weight, padding=1)
    actual = torch.conv2d(x.to(device), weight.to(device), padding=1).cpu()
    finite = expected.isfinite()
    # Winograd's algorithm adds infinities of both signs, as others of its kind.
    assert torch.equal(actual.isfinite(), finite)
    assert channels == 32 or not actual.isnan().any()
    torch.testing.assert_close(actual[finite], expected[finite], rtol=1e-4, atol=1e-3)


def test_memory_of_others_stays_as_it_is(device):
    # Two kilobytes each: holes of the size that packed weights have here, between tensors.
    blocks = [torch.full((256,), 7.0, dtype=torch.float64, device=device) for _ in range(64)]
    del blocks[::2]
    x = torch.randn(3, 32, 7, dtype=torch.float64, device=device)
    weight = torch.randn(16, 16, 1, dtype=torch.float64, device=device)
    gradient = torch.randn(3, 16, 4, dtype=torch.float64, device=device)
    options = ([2], [0], [1], False, [0], 2, [True, True, False])
    for _ in range(8):
        torch.ops.aten.convolution_backward(gradient, x, weight, None, *options)
    assert all(bool((block == 7).all()) for block in blocks)


@pytest.mark.usefixtures("timed")
def test_kernels_that_run(device):
    """CPUs take the padded layout for maps filling their vectors, GPUs and whole numbers never."""
    x = torch.randn(4, 4, 40, 40, device=device)
    weight = torch.randn(70, 4, 3, 3, device=device)
    launched(device)
    processor = is_processor(device)

    y = torch.conv2d(x, weight, padding=1)
    assert launched(device) >= PADDED if processor else "padded_tiles" not in launched(device)
    options = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False])
    torch.ops.aten.convolution_backward(y, x, weight, None, *options)
    assert launched(device) >= GRADIENTS if processor else "sum_parts" not in launched(device)
    torch.conv2d(x[..., :6, :7].contiguous(), weight, padding=1)
    assert ("gather_patches" in launched(device)) == processor
    torch.conv2d(x.long(), weight.long())
    assert ("tiles" if processor else "group_tiles") in launched(device)


@pytest.mark.parametrize("kernel", [3, 5])  # the first by Winograd's algorithm
@pytest.mark.usefixtures("timed")
def test_a_gradient_is_packed_once(device, kernel):
    if not is_processor(device):
        pytest.skip("the padded layout is for CPUs")
    tensors = (*torch.randn(2, 2, 32, 40, 40), torch.randn(32, 32, kernel, kernel))
    padding = kernel // 2
    options = ([1, 1], [padding] * 2, [1, 1], False, [0, 0], 1, [True, True, False])
    gradient, x, weight = (tensor.to(device) for tensor in tensors)
    timed_launches(device)
    results = torch.ops.aten.convolution_backward(gradient, x, weight, None, *options)
    assert timed_launches(device).count("pack_padded") == 2  # the gradient, and the input
    expected = torch.ops.aten.convolution_backward(*tensors, None, *options)
    for result, of_cpu in zip(results[:2], expected[:2], strict=True):
        torch.testing.assert_close(result.cpu(), of_cpu, rtol=1e-4, atol=2e-3)


@pytest.mark.slow  # it allocates 4 GiB, mostly untouched
def test_elements_farther_than_32_bits_count(device):
    far = 2**31 + 64
    free, _ = torch.get_device_module(device).mem_get_info(device)
    most = _C.device_properties(device.index).max_allocation
    if min(free, most) < 2 * far + (64 << 20):
        pytest.skip(f"the device has {free >> 30} GiB free, and gives {most >> 30} GiB at once")
    base = torch.empty(far + 24 * 24, dtype=torch.float16, device=device)
    x = base.as_strided((1, 2, 24, 24), (2 * far, far, 24, 1))
    x.copy_(torch.randn(x.shape))
    weight = torch.randn(8, 2, 3, 3, dtype=torch.float16, device=device)
    expected = torch.conv2d(x.contiguous(), weight, padding=1)
    torch.testing.assert_close(torch.conv2d(x, weight, padding=1), expected)
