"""Random numbers: the words of Philox, and what they do not depend on."""

import numpy as np
import pytest
import torch

from tests.random import philox_reference as reference
from tests.random.random_draws import DRAWS, FILLS, seeded, with_threads
from tests.support import run_python


def raw_64(device: torch.device, count: int, generator: torch.Generator) -> np.ndarray:
    """The 64-bit draws as the device makes them."""
    drawn = torch.empty(count, dtype=torch.int64, device=device)
    drawn.random_(-(2**63), None, generator=generator)
    return drawn.cpu().numpy().view(np.uint64)


# ---- Words


def test_words_are_those_of_philox(device, generator):
    """The first block is the published one."""
    words = raw_64(device, 2, seeded(generator, 0))
    assert [hex(word) for word in words] == ["0xe169c58d6627e8d5", "0x9b00dbd8bc57ac4c"]
    for seed in (1, 2**32 - 1, 2**32, 0x0123456789ABCDEF, 2**64 - 1):
        for offset in (0, 3, 2**32 + 5, 2**63):
            got = raw_64(device, 1500, seeded(generator, seed, offset))
            np.testing.assert_array_equal(got, reference.draws_64(1500, seed, offset))


def test_bernoulli_and_integers_are_exact(device, generator):
    n = 5000
    words = reference.draws_32(n, 7, 0).astype(np.uint64)
    for p in (0.0, 2.0**-32, 0.3, 0.5, 1.0):
        drawn = torch.empty(n, device=device).bernoulli_(p, generator=seeded(generator, 7))
        np.testing.assert_array_equal(drawn.cpu().numpy(), words < p * 2**32)
    drawn = torch.empty(n, dtype=torch.int64, device=device)
    drawn.random_(-5, 100, generator=seeded(generator, 7))
    np.testing.assert_array_equal(
        drawn.cpu().numpy(), (words * np.uint64(105) >> np.uint64(32)).astype(np.int64) - 5
    )
    high = 10**15
    drawn.random_(0, high, generator=seeded(generator, 7))
    expected = [int(draw) * high >> 64 for draw in reference.draws_64(n, 7, 0)]
    assert drawn.tolist() == expected


@pytest.mark.parametrize(("name", "ulps"), [("exponential", 3), ("normal", 5), ("cauchy", 6)])
def test_float32_is_within_the_stated_ulps(device, generator, name, ulps):
    n = 200_000
    got = FILLS[name](torch.empty(n, device=device), seeded(generator, 3)).cpu().numpy()
    exact = getattr(reference, name)(reference.draws_32(n, 3, 0), 32)
    if name == "cauchy":
        # The reference itself is not exact to float32's precision at the far ends.
        near = np.abs(exact) < 1e6
        got, exact = got[near], exact[near]
    error = np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))
    assert error.max() <= ulps


@pytest.mark.parametrize("name", ["exponential", "normal"])
def test_float64_is_close_to_the_reference(device, generator, name):
    n = 10_000
    drawn = torch.empty(n, dtype=torch.float64, device=device)
    got = FILLS[name](drawn, seeded(generator, 3)).cpu().numpy()
    exact = getattr(reference, name)(reference.draws_64(n, 3, 0), 64)
    np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-14)


def test_uniform_is_exact(device, generator):
    got = torch.empty(5000, device=device).uniform_(generator=seeded(generator, 9)).cpu()
    np.testing.assert_array_equal(got.numpy(), (reference.draws_32(5000, 9, 0) >> 8) * 2.0**-24)
    wide = torch.empty(5000, dtype=torch.float64, device=device)
    wide = wide.uniform_(generator=seeded(generator, 9)).cpu()
    np.testing.assert_array_equal(
        wide.numpy(), (reference.draws_64(5000, 9, 0) >> np.uint64(11)) * 2.0**-53
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["normal", "exponential", "cauchy", "log_normal"])
def test_short_dtypes_round_float32(device, generator, dtype, name):
    fill = FILLS[name]
    short = fill(torch.empty(5000, dtype=dtype, device=device), seeded(generator, 1))
    full = fill(torch.empty(5000, device=device), seeded(generator, 1))
    expected = full.cpu().to(dtype)
    if name == "exponential":
        expected = expected.clamp_min(torch.finfo(dtype).tiny)
    assert torch.equal(short.cpu(), expected)


# ---- What numbers do not depend on


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_strides_do_not_matter(device, generator, dtype):
    for name, fill in FILLS.items():
        if name == "random_large" and dtype is torch.float16:
            continue
        dense = fill(torch.empty(7, 11, 130, dtype=dtype, device=device), seeded(generator, 4))
        storage = torch.empty(130, 2 * 11, 7 + 3, dtype=dtype, device=device).zero_()
        strided = storage.permute(2, 1, 0)[1:8, ::2]
        fill(strided, seeded(generator, 4))
        assert torch.equal(strided.cpu(), dense.cpu()), name
        untouched = storage.permute(2, 1, 0)
        assert not untouched[:, 1::2].any().item()
        assert not untouched[0].any().item()


@pytest.mark.parametrize("name", FILLS)
def test_length_does_not_matter(device, generator, name):
    long = FILLS[name](torch.empty(5000, device=device), seeded(generator, 4)).cpu()
    for n in (1, 2, 3, 63, 64, 65, 1023, 1024, 1025, 4097):
        short = FILLS[name](torch.empty(n, device=device), seeded(generator, 4)).cpu()
        assert torch.equal(short, long[:n])


def test_threads_do_not_matter(device, generator):
    def draw() -> list[torch.Tensor]:
        drawn = [
            each(parameters.to(dtype), seeded(generator, 4)).cpu()
            for each in DRAWS
            for dtype in (torch.float32, torch.float64)
        ]
        drawn.append(torch.randperm(100_001, generator=seeded(generator, 4), device=device).cpu())
        return drawn

    parameters = torch.rand(50_001, 3, device=device)
    single, several = with_threads(1, draw), with_threads(4, draw)
    assert all(torch.equal(a, b) for a, b in zip(single, several, strict=True))


def test_memory_access_does_not_matter():
    program = """
        import hashlib, torch, torch_outboard
        device = torch.device(torch_outboard.device_name(), 0)
        torch.manual_seed(11)
        x = torch.rand(50, 40, device=device)
        drawn = [
            x, torch.randn(999, device=device, dtype=torch.float64),
            torch.randint(10**12, (999,), device=device), torch.randperm(999, device=device),
            torch.empty(9, 9, device=device).t().exponential_(), torch.bernoulli(x),
            *torch.native_dropout(x.t(), 0.4, True), torch.multinomial(x, 5),
            torch.multinomial(x, 50, replacement=True), torch.poisson(x * 9),
            torch._standard_gamma(x), torch.nn.functional.rrelu(x - 0.5, training=True),
        ]
        for t in drawn:
            print(hashlib.sha1(t.cpu().contiguous().numpy().tobytes()).hexdigest())
    """
    shared = run_python(program, OUTBOARD_HOST_ACCESS="shared")
    separate = run_python(program, OUTBOARD_HOST_ACCESS="separate")
    assert len(shared.split()) == 13
    assert shared == separate


def test_devices_draw_the_same(device, device_module):
    if device_module.device_count() < 2:
        pytest.skip("there is one device")
    torch.manual_seed(5)
    first = torch.randn(100, device=device)
    second = torch.randn(100, device=torch.device(device.type, 1))
    assert torch.equal(first.cpu(), second.cpu())
