"""Random numbers: the words, the distributions, and the operators' behaviour."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from tests.aten import philox_reference as reference
from tests.support import run_python

pytestmark = pytest.mark.separate

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGRAL = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# A right distribution fails with this probability, and seeds are fixed.
SIGNIFICANCE = 1e-4

FILLS = {
    "uniform": lambda t, g=None: t.uniform_(generator=g),
    "normal": lambda t, g=None: t.normal_(generator=g),
    "exponential": lambda t, g=None: t.exponential_(generator=g),
    "cauchy": lambda t, g=None: t.cauchy_(generator=g),
    "log_normal": lambda t, g=None: t.log_normal_(generator=g),
    "geometric": lambda t, g=None: t.geometric_(0.25, generator=g),
    "bernoulli": lambda t, g=None: t.bernoulli_(0.3, generator=g),
    "random": lambda t, g=None: t.random_(generator=g),
    "random_small": lambda t, g=None: t.random_(-5, 100, generator=g),
    "random_large": lambda t, g=None: t.random_(0, 2**24 + 1, generator=g),
}  # fmt: skip


@pytest.fixture
def generator(device: torch.device) -> torch.Generator:
    return torch.Generator(device=device)


def seeded(generator: torch.Generator, seed: int, offset: int = 0) -> torch.Generator:
    generator.manual_seed(seed)
    generator.set_offset(offset)
    return generator


def raw_64(device: torch.device, count: int, generator: torch.Generator) -> np.ndarray:
    """The 64-bit draws as the device makes them."""
    drawn = torch.empty(count, dtype=torch.int64, device=device)
    drawn.random_(-(2**63), None, generator=generator)
    return drawn.cpu().numpy().view(np.uint64)


def assert_same_distribution(values: torch.Tensor, cdf: object) -> None:
    result = stats.kstest(values.cpu().double().numpy(), cdf)
    assert result.pvalue > SIGNIFICANCE, result


# ---- words ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "block"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_reference_gives_the_published_blocks(counter, key, block):
    """The known answers of Random123."""
    got = reference.philox(np.array([counter], dtype=np.uint32), key)
    assert tuple(got[0]) == block


def test_first_block_is_the_published_one(device, generator):
    words = raw_64(device, 2, seeded(generator, 0))
    assert [hex(word) for word in words] == ["0xe169c58d6627e8d5", "0x9b00dbd8bc57ac4c"]


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 0x0123456789ABCDEF, 2**64 - 1])
@pytest.mark.parametrize("offset", [0, 3, 2**32 + 5, 2**63])
def test_words_are_those_of_philox(device, generator, seed, offset):
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


# ---- what numbers do not depend on ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, dtype) for name in FILLS for dtype in (torch.float32, torch.float64)),
        *((name, torch.float16) for name in FILLS if name != "random_large"),
    ],
)
def test_strides_do_not_matter(device, generator, name, dtype):
    fill = FILLS[name]
    contiguous = fill(torch.empty(7, 11, 130, dtype=dtype, device=device), seeded(generator, 4))
    storage = torch.empty(130, 2 * 11, 7 + 3, dtype=dtype, device=device).zero_()
    strided = storage.permute(2, 1, 0)[1:8, ::2]
    fill(strided, seeded(generator, 4))
    assert torch.equal(strided.cpu(), contiguous.cpu())
    untouched = storage.permute(2, 1, 0)
    assert not untouched[:, 1::2].any().item()
    assert not untouched[0].any().item()


@pytest.mark.parametrize("name", FILLS)
def test_length_does_not_matter(device, generator, name):
    long = FILLS[name](torch.empty(5000, device=device), seeded(generator, 4)).cpu()
    for n in (1, 2, 3, 63, 64, 65, 511, 512, 1023, 1024, 1025, 4097):
        short = FILLS[name](torch.empty(n, device=device), seeded(generator, 4)).cpu()
        assert torch.equal(short, long[:n])


def test_threads_do_not_matter(device, generator):
    def draw() -> list[torch.Tensor]:
        drawn = [
            fill(torch.empty(100_001, dtype=dtype, device=device), seeded(generator, 4)).cpu()
            for fill in FILLS.values()
            for dtype in (torch.float32, torch.float64)
        ]
        drawn.append(torch.randperm(100_001, generator=seeded(generator, 4), device=device).cpu())
        return drawn

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        single = draw()
        torch.set_num_threads(4)
        several = draw()
    finally:
        torch.set_num_threads(before)
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


# ---- distributions -------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("fill", "cdf"),
    [
        (lambda t: t.uniform_(-2, 5), stats.uniform(-2, 7).cdf),
        (lambda t: t.normal_(3, 0.5), stats.norm(3, 0.5).cdf),
        (lambda t: t.exponential_(4), stats.expon(scale=0.25).cdf),
        (lambda t: t.cauchy_(-1, 3), stats.cauchy(-1, 3).cdf),
        (lambda t: t.log_normal_(0.5, 0.8), stats.lognorm(0.8, scale=np.exp(0.5)).cdf),
    ],
    ids=["uniform", "normal", "exponential", "cauchy", "log_normal"],
)
def test_continuous_distribution(device, dtype, fill, cdf):
    torch.manual_seed(20)
    values = fill(torch.empty(100_000, dtype=dtype, device=device)).cpu()
    assert_same_distribution(values, cdf)
    for lag in (1, 2, 4):
        assert abs(stats.spearmanr(values[lag:], values[:-lag]).statistic) < 0.015


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGRAL])
def test_geometric_distribution(device, dtype):
    torch.manual_seed(21)
    p = 0.3
    values = torch.empty(100_000, dtype=dtype, device=device).geometric_(p).cpu().long()
    assert values.min() == 1
    counts = torch.bincount(values.clamp(max=15), minlength=16)[1:].numpy()
    expected = p * (1 - p) ** np.arange(15)
    expected[-1] = (1 - p) ** 14
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGRAL])
@pytest.mark.parametrize(("low", "high"), [(0, 10), (3, 100), (0, 2)])
def test_integers_are_uniform(device, dtype, low, high):
    torch.manual_seed(22)
    drawn = torch.empty(50_000, dtype=dtype, device=device).random_(low, high).cpu().long()
    counts = torch.bincount(drawn - low, minlength=high - low)
    assert len(counts) == high - low
    assert stats.chisquare(counts.numpy()).pvalue > SIGNIFICANCE


def test_multinomial_distribution(device):
    torch.manual_seed(23)
    weights = torch.tensor([1.0, 2.0, 0.0, 3.0, 4.0], device=device)
    expected = np.array([0.1, 0.2, 0.3, 0.4]) * 20_000
    rows = weights.expand(20_000, 5)
    for drawn in (
        torch.multinomial(weights, 20_000, replacement=True),
        torch.multinomial(rows, 1).squeeze(1),
        torch.multinomial(rows, 3)[:, 0],
        torch.multinomial(rows, 2, replacement=True)[:, 1],
    ):
        counts = torch.bincount(drawn.cpu(), minlength=5).numpy()
        assert counts[2] == 0
        assert stats.chisquare(counts[[0, 1, 3, 4]], expected).pvalue > SIGNIFICANCE
    without = torch.multinomial(rows, 4).cpu()
    assert torch.equal(without.sort(1).values, torch.tensor([0, 1, 3, 4]).expand(20_000, 4))


@pytest.mark.parametrize("n", [0, 1, 2, 255, 5000, 100_000])
def test_randperm_is_a_permutation(device, n):
    drawn = torch.randperm(n, device=device)
    assert drawn.dtype == torch.int64
    assert torch.equal(drawn.cpu().sort().values, torch.arange(n))


def test_randperm_orders_the_draws(device, generator):
    drawn = torch.randperm(3000, generator=seeded(generator, 8), device=device)
    expected = np.argsort(reference.draws_64(3000, 8, 0), kind="stable")
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


def test_randperm_is_uniform(device):
    torch.manual_seed(24)
    order = [torch.randperm(4, device=device).tolist() for _ in range(2400)]
    counts = np.unique([int("".join(map(str, o))) for o in order], return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > SIGNIFICANCE


def test_samplers_of_the_cpu(device):
    torch.manual_seed(25)
    rate = torch.full((20_000,), 3.5, device=device)
    drawn = torch.poisson(rate).cpu()
    assert abs(drawn.mean() - 3.5) < 0.06
    assert abs(drawn.var() - 3.5) < 0.15
    assert_same_distribution(torch._standard_gamma(rate), stats.gamma(3.5).cdf)
    drawn = torch.binomial(torch.full_like(rate, 10), torch.full_like(rate, 0.3)).cpu()
    assert abs(drawn.mean() - 3) < 0.05
    drawn = torch._sample_dirichlet(torch.ones(5000, 4, device=device)).cpu()
    torch.testing.assert_close(drawn.sum(1), torch.ones(5000))
    assert_same_distribution(drawn[:, 0], stats.beta(1, 3).cdf)


# ---- ranges and edge cases -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING)
def test_uniform_stays_below_its_end(device, dtype):
    for low, high in ((0.0, 1.0), (-1.0, 0.0), (100.0, 101.0), (2.0, 2.0)):
        drawn = torch.empty(1 << 18, dtype=dtype, device=device).uniform_(low, high).cpu()
        assert drawn.min() >= low
        assert drawn.max() < high if low < high else drawn.max() == high


@pytest.mark.parametrize("dtype", FLOATING)
def test_exponential_is_never_zero(device, dtype):
    drawn = torch.empty(1 << 18, dtype=dtype, device=device)
    assert drawn.exponential_().min().item() > 0
    assert drawn.exponential_(3e4).min().item() > 0
    assert drawn.exponential_(float("inf")).abs().max().item() == 0


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (torch.bool, 1), (torch.uint8, 255), (torch.int8, 127), (torch.int16, 2**15 - 1),
        (torch.int32, 2**31 - 1), (torch.int64, 2**63 - 1), (torch.float16, 2**11),
        (torch.bfloat16, 2**8), (torch.float32, 2**24), (torch.float64, 2**53),
    ],
)  # fmt: skip
def test_random_covers_the_dtype(device, dtype, largest):
    torch.manual_seed(26)
    drawn = torch.empty(20_000, dtype=dtype, device=device).random_().cpu().double()
    assert drawn.min() >= 0
    assert drawn.max() <= largest
    assert drawn.max() > 0.99 * largest
    assert drawn.min() <= 0.01 * largest


@pytest.mark.parametrize("dtype", [*INTEGRAL, torch.uint16, torch.uint32])
def test_limits_of_an_integer_dtype(device, dtype):
    info = torch.iinfo(dtype)
    drawn = torch.empty(2000, dtype=dtype, device=device)
    assert (drawn.random_(info.max - 1, info.max).cpu() == info.max - 1).all()
    assert (drawn.random_(info.max - 2, None).cpu().to(torch.int64) >= info.max - 2).all()
    if dtype is not torch.int64:
        with pytest.raises(RuntimeError, match="to - 1 is out of bounds"):
            drawn.random_(0, info.max + 2)
        with pytest.raises(RuntimeError, match="from is out of bounds"):
            drawn.random_(info.min - 1, info.max)


def test_whole_int64_range(device):
    drawn = torch.empty(20_000, dtype=torch.int64, device=device)
    for low, high in ((-(2**63), None), (-(2**63), 2**63 - 1)):
        values = drawn.random_(low, high).cpu()
        assert values.min() < -0.99 * 2**63
        assert values.max() > 0.99 * 2**63


def test_probabilities_zero_and_one(device):
    for dtype in (torch.float32, torch.int32, torch.bool):
        drawn = torch.empty(3000, dtype=dtype, device=device)
        assert not drawn.bernoulli_(0.0).any().item()
        assert drawn.bernoulli_(1.0).all().item()
    p = torch.tensor([0.0, 1.0], device=device).expand(500, 2)
    assert torch.equal(torch.bernoulli(p).cpu(), p.cpu())
    drawn = torch.empty(500, 2, device=device).bernoulli_(p.cpu().double())
    assert torch.equal(drawn.cpu(), p.cpu())


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (1, 1)])
def test_small_shapes(device, shape):
    for dtype in (torch.float32, torch.float64):
        for fill in FILLS.values():
            drawn = torch.empty(shape, dtype=dtype, device=device)
            assert fill(drawn) is drawn
            assert drawn.isfinite().all().item()


def test_empty_tensors_draw_nothing(device, generator):
    for fill in FILLS.values():
        fill(torch.empty(0, device=device), generator)
    torch.randperm(0, generator=generator, device=device)
    assert generator.get_offset() == 0


def test_complex(device):
    torch.manual_seed(27)
    drawn = torch.randn(50_000, dtype=torch.complex64, device=device)
    parts = torch.view_as_real(drawn)
    assert_same_distribution(parts[:, 0], stats.norm(0, 0.5**0.5).cdf)
    assert_same_distribution(parts[:, 1], stats.norm(0, 0.5**0.5).cdf)
    assert_same_distribution(torch.view_as_real(torch.rand(9999, dtype=torch.complex128,
                             device=device)).flatten(), "uniform")  # fmt: skip


def test_normal_with_tensors(device, generator):
    mean = torch.arange(6.0, device=device).reshape(2, 3)
    std = torch.tensor([0.5, 1.0, 2.0], device=device)
    standard = torch.empty(2, 3, device=device).normal_(generator=seeded(generator, 2)).cpu()
    out = torch.empty(0, device=device)
    scaled = std.cpu() * standard

    def normal(*arguments: object, **keywords: object) -> torch.Tensor:
        return torch.normal(*arguments, generator=seeded(generator, 2), **keywords)

    for got, expected in (
        (normal(mean, 2.0), mean.cpu() + 2 * standard),
        (normal(mean, std), mean.cpu() + scaled),
        (normal(1.0, std.expand(2, 3)), 1 + scaled),
        (normal(mean, std, out=out), mean.cpu() + scaled),
    ):
        torch.testing.assert_close(got.cpu(), expected)


def test_factories(device):
    like = torch.empty(4, 5, dtype=torch.float64, device=device)
    for make in (
        lambda: torch.rand(4, 5, device=device),
        lambda: torch.randn(4, 5, device=device, dtype=torch.float16),
        lambda: torch.randint(9, (4, 5), device=device),
        lambda: torch.randint(3, 9, (4, 5), device=device, dtype=torch.uint8),
        lambda: torch.rand_like(like),
        lambda: torch.randn_like(like),
        lambda: torch.randint_like(like, 9),
        lambda: torch.normal(0.0, 1.0, (4, 5), device=device),
        lambda: torch.rand(4, 5, out=torch.empty(0, device=device)),
        lambda: torch.randperm(9, out=torch.empty(0, dtype=torch.int64, device=device)),
    ):
        torch.manual_seed(1)
        first = make()
        torch.manual_seed(1)
        second = make()
        third = make()
        assert first.device == device
        assert torch.equal(first.cpu(), second.cpu())
        assert not torch.equal(first.cpu(), third.cpu())


# ---- generators ----------------------------------------------------------------------------


def test_default_generator_is_used_and_moves_on(device, device_module):
    torch.manual_seed(31)
    state = device_module.get_rng_state(device)
    first = torch.rand(10, device=device)
    second = torch.rand(10, device=device)
    assert not torch.equal(first.cpu(), second.cpu())
    device_module.set_rng_state(state, device)
    assert torch.equal(torch.rand(10, device=device).cpu(), first.cpu())


def test_cpu_generator_is_left_alone(device):
    torch.manual_seed(31)
    state = torch.get_rng_state()
    x = torch.rand(10, device=device)
    torch.multinomial(x, 3, replacement=True)
    torch.poisson(x)
    torch.nn.functional.dropout(x)
    torch.randperm(10, device=device)
    assert torch.equal(torch.get_rng_state(), state)


def test_offset_counts_operators(device, generator):
    for calls, fill in enumerate(FILLS.values(), start=1):
        fill(torch.empty(3, device=device), generator)
        assert generator.get_offset() == calls


def test_samplers_of_the_cpu_follow_the_state(device, generator):
    rate = torch.full((50,), 100.0, device=device)
    first = torch.poisson(rate, generator=seeded(generator, 5))
    second = torch.poisson(rate, generator=generator)
    assert torch.equal(torch.poisson(rate, generator=seeded(generator, 5)).cpu(), first.cpu())
    assert torch.equal(torch.poisson(rate, generator=seeded(generator, 5, 1)).cpu(), second.cpu())
    assert not torch.equal(first.cpu(), second.cpu())


def test_foreign_generators_are_refused(device):
    drawn = torch.empty(3, device=device)
    for fill in FILLS.values():
        with pytest.raises(RuntimeError, match="generator"):
            fill(drawn, torch.Generator())
    with pytest.raises(RuntimeError, match="generator"):
        torch.randperm(3, generator=torch.Generator(), device=device)


# ---- errors --------------------------------------------------------------------------------

WRONG = {
    "expanded": lambda d: torch.zeros(1, device=d).expand(3).normal_(),
    "uniform_range": lambda d: torch.zeros(3, device=d).uniform_(1, 0),
    "uniform_dtype": lambda d: torch.zeros(3, dtype=torch.int64, device=d).uniform_(),
    "normal_std": lambda d: torch.zeros(3, device=d).normal_(0, -1),
    "normal_dtype": lambda d: torch.zeros(3, dtype=torch.int64, device=d).normal_(),
    "normal_tensor": lambda d: torch.normal(torch.zeros(3, device=d), -torch.ones(3, device=d)),
    "exponential_rate": lambda d: torch.zeros(3, device=d).exponential_(0),
    "exponential_dtype": lambda d: torch.zeros(3, dtype=torch.int32, device=d).exponential_(),
    "cauchy": lambda d: torch.zeros(3, device=d).cauchy_(0, 0),
    "log_normal": lambda d: torch.zeros(3, device=d).log_normal_(0, 0),
    "log_normal_dtype": lambda d: torch.zeros(3, dtype=torch.int32, device=d).log_normal_(),
    "geometric": lambda d: torch.zeros(3, device=d).geometric_(1),
    "geometric_dtype": lambda d: torch.zeros(3, dtype=torch.bool, device=d).geometric_(0.5),
    "bernoulli": lambda d: torch.zeros(3, device=d).bernoulli_(1.5),
    "bernoulli_dtype": lambda d: torch.zeros(3, dtype=torch.complex64, device=d).bernoulli_(),
    "bernoulli_p_dtype": lambda d: torch.bernoulli(torch.ones(3, dtype=torch.int64, device=d)),
    "random_range": lambda d: torch.zeros(3, device=d).random_(3, 3),
    "random_full": lambda d: torch.zeros(3, dtype=torch.int32, device=d).random_(-(2**63), None),
    "random_dtype": lambda d: torch.zeros(3, dtype=torch.complex64, device=d).random_(),
    "randperm": lambda d: torch.randperm(-1, device=d),
    "randperm_byte": lambda d: torch.randperm(300, dtype=torch.uint8, device=d),
    "randperm_half": lambda d: torch.randperm(3000, dtype=torch.float16, device=d),
    "randperm_dtype": lambda d: torch.randperm(3, dtype=torch.bool, device=d),
    "multinomial_dims": lambda d: torch.multinomial(torch.ones(2, 2, 2, device=d), 1),
    "multinomial_count": lambda d: torch.multinomial(torch.ones(3, device=d), 4),
    "multinomial_none": lambda d: torch.multinomial(torch.ones(3, device=d), 0),
    "multinomial_dtype": lambda d: torch.multinomial(torch.ones(3, device=d).int(), 1),
    "multinomial_negative": lambda d: torch.multinomial(-torch.ones(3, device=d), 2, True),
    "multinomial_nan": lambda d: torch.multinomial(torch.ones(3, device=d) * float("nan"), 2),
    "multinomial_inf": lambda d: torch.multinomial(torch.ones(3, device=d) / 0, 2, True),
    "multinomial_zero": lambda d: torch.multinomial(torch.zeros(3, device=d), 2, True),
    "multinomial_zero_one": lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    "dropout": lambda d: torch.native_dropout(torch.ones(3, device=d), 2.0, True),
    "dropout_dtype": lambda d: torch.native_dropout(torch.ones(3, device=d).int(), 0.5, True),
    "poisson": lambda d: torch.poisson(-torch.ones(3, device=d)),
    "rrelu_noise": lambda d: torch.ops.aten.rrelu_with_noise(
        torch.ones(3, device=d), torch.ones(2, device=d), 0.1, 0.3, True
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_cpu(device, name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        WRONG[name]("cpu")
    with pytest.raises(type(expected.value)) as got:
        WRONG[name](device)
    assert str(got.value).split("\n")[0] == str(expected.value).split("\n")[0]


@pytest.mark.parametrize("value", [1.5, -0.5, float("nan")])
def test_probabilities_out_of_range(device, value):
    p = torch.full((3,), value, device=device)
    with pytest.raises(RuntimeError, match=r"p_in >= 0 && p_in <= 1"):
        torch.bernoulli(p)


# ---- dropout and rrelu ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "expanded"])
def test_dropout_forward_and_backward_use_one_mask(device, dtype, layout):
    x = torch.randn(4, 6, 5, 5).to(device, dtype)
    if layout == "channels_last":
        x = x.to(memory_format=torch.channels_last)
    elif layout == "expanded":
        x = x[:, :1].expand(4, 6, 5, 5)
    x = x.requires_grad_()
    torch.manual_seed(41)
    y = torch.nn.functional.dropout(x, 0.25, training=True)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.manual_seed(41)
    output, mask = torch.native_dropout(x.detach(), 0.25, True)
    assert output.stride() == torch.empty_like(x).stride()
    assert torch.equal(y.detach().cpu(), output.cpu())
    kept = mask.cpu()
    scale = 1 / 0.75
    torch.testing.assert_close(output.cpu(), x.detach().cpu() * kept * scale)
    torch.testing.assert_close(grad.cpu(), kept.to(dtype) * scale)
    assert abs(kept.float().mean() - 0.75) < 0.08


def test_dropout_draws_as_bernoulli(device, generator, device_module):
    torch.manual_seed(42)
    mask = torch.native_dropout(torch.ones(1000, device=device), 0.4, True)[1]
    kept = reference.draws_32(1000, 42, 0) < (1 - 0.4) * 2**32
    np.testing.assert_array_equal(mask.cpu().numpy(), kept)


def test_dropout_edge_cases(device):
    x = torch.tensor([1.0, float("inf"), float("nan")], device=device)
    output, mask = torch.native_dropout(x, 0.0, True)
    assert mask.all().item()
    torch.testing.assert_close(output.cpu(), x.cpu(), equal_nan=True)
    output, mask = torch.native_dropout(torch.ones(5, device=device), 1.0, True)
    assert not mask.any().item()
    assert not output.any().item()
    output, mask = torch.native_dropout(x, 0.5, False)
    assert mask.all().item()
    assert mask.dtype == torch.bool
    assert output.data_ptr() != x.data_ptr()
    output, mask = torch.native_dropout(torch.empty(0, 3, device=device), 0.5, True)
    assert output.shape == mask.shape == (0, 3)
    z = torch.ones(500, dtype=torch.complex64, device=device)
    output, mask = torch.native_dropout(z, 0.5, True)
    torch.testing.assert_close(output.cpu(), mask.cpu() * (2 + 0j))


@pytest.mark.parametrize(
    "drop",
    [
        torch.nn.functional.alpha_dropout,
        torch.nn.functional.feature_alpha_dropout,
        torch.nn.functional.dropout1d,
        torch.nn.functional.dropout2d,
    ],
)
def test_composite_dropouts(device, drop):
    x = torch.randn(64, 32, 10, device=device)
    if drop is torch.nn.functional.dropout2d:
        x = x.unsqueeze(-1)
    x.requires_grad_()
    torch.manual_seed(43)
    first = drop(x, 0.5, training=True)
    torch.manual_seed(43)
    assert torch.equal(drop(x, 0.5, training=True).cpu(), first.cpu())
    first.sum().backward()
    assert x.grad.isfinite().all().item()
    if drop in (torch.nn.functional.dropout1d, torch.nn.functional.dropout2d):
        dropped = (first == 0).flatten(2).all(2).cpu()
        assert abs(dropped.float().mean() - 0.5) < 0.05
        assert torch.equal(x.grad.cpu().flatten(2)[:, :, 0] == 0, dropped)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("in_place", [False, True])
def test_rrelu(device, dtype, in_place):
    torch.manual_seed(44)
    x = torch.randn(50, 40, dtype=dtype).to(device).t()
    leaf = x.clone().requires_grad_()
    noise = torch.empty_like(x)
    if in_place:
        y = torch.ops.aten.rrelu_with_noise_(leaf.clone(), noise, 0.1, 0.3, True)
    else:
        y = torch.ops.aten.rrelu_with_noise(leaf, noise, 0.1, 0.3, True)
    values, slopes = x.cpu(), noise.cpu()
    assert (slopes[values > 0] == 1).all()
    drawn = slopes[values <= 0].double()
    assert drawn.min() >= 0.0995
    assert drawn.max() <= 0.3005
    torch.testing.assert_close(y.detach().cpu(), values * slopes)
    y.sum().backward()
    torch.testing.assert_close(leaf.grad.cpu(), slopes)


def test_rrelu_in_evaluation_is_a_leaky_relu(device):
    x = torch.randn(30, device=device)
    torch.testing.assert_close(
        torch.nn.functional.rrelu(x, 0.1, 0.3).cpu(),
        torch.nn.functional.leaky_relu(x.cpu(), 0.2),
    )


# ---- coverage ------------------------------------------------------------------------------


def test_every_random_operator_of_the_cpu_has_a_kernel_here():
    """No overload may reach a CPU kernel that would want, or silently use, a CPU generator."""
    own = {
        "uniform_", "normal_", "log_normal_", "exponential_", "cauchy_", "geometric_",
        "normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor",
        "normal.Tensor_float_out", "normal.float_Tensor_out", "normal.Tensor_Tensor_out",
        "random_", "random_.from", "random_.to", "randperm.generator_out",
        "bernoulli_.float", "bernoulli_.Tensor", "bernoulli.out", "native_dropout",
        "rrelu_with_noise", "rrelu_with_noise.out", "rrelu_with_noise_",
        "multinomial", "multinomial.out",
        "poisson", "binomial", "_standard_gamma", "_sample_dirichlet",
    }  # fmt: skip
    # Random only with a dropout probability, which they refuse or hand to operators above.
    deterministic = {"_fused_sdp_choice", "_scaled_dot_product_flash_attention_for_cpu"}
    found = set()
    for qualified in torch._C._dispatch_get_all_op_names():
        namespace, _, name = qualified.partition("::")
        if namespace != "aten":
            continue
        if not torch._C._dispatch_has_kernel_for_dispatch_key(qualified, "CPU"):
            continue
        packet, _, overload_name = name.partition(".")
        overload = getattr(getattr(torch.ops.aten, packet), overload_name or "default")
        takes_generator = any("Generator" in str(a.type) for a in overload._schema.arguments)
        if takes_generator or torch.Tag.nondeterministic_seeded in overload.tags:
            found.add(name)
    assert found - deterministic == own
