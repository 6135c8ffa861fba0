"""Random numbers: distributions, ranges, generators, errors, and that no operator is missing."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.device_kernels.on_device import assert_raises_as_on_cpu
from tests.random import philox_reference as reference
from tests.random.random_draws import (
    DRAWS,
    FILLS,
    FLOATING,
    INTEGRAL,
    SIGNIFICANCE,
    assert_same_distribution,
    seeded,
)

# ---- Distributions


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
def test_parameters_of_a_distribution(device, fill, cdf):
    """Standard ones are compared with a reference, number by number."""
    torch.manual_seed(20)
    for dtype in (torch.float32, torch.float64):
        assert_same_distribution(fill(torch.empty(20_000, dtype=dtype, device=device)), cdf)


@pytest.mark.parametrize("dtype", [*FLOATING, *INTEGRAL])
def test_discrete_distributions(device, dtype):
    torch.manual_seed(21)
    p = 0.3
    values = torch.empty(50_000, dtype=dtype, device=device).geometric_(p).cpu().long()
    assert values.min() == 1
    counts = torch.bincount(values.clamp(max=15), minlength=16)[1:].numpy()
    expected = p * (1 - p) ** np.arange(15)
    expected[-1] = (1 - p) ** 14
    assert stats.chisquare(counts, expected * counts.sum()).pvalue > SIGNIFICANCE
    drawn = torch.empty(50_000, dtype=dtype, device=device).random_(3, 100).cpu().long()
    counts = torch.bincount(drawn - 3, minlength=97)
    assert len(counts) == 97
    assert stats.chisquare(counts.numpy()).pvalue > SIGNIFICANCE


def test_multinomial_distribution(device):
    torch.manual_seed(23)
    weights = torch.tensor([1.0, 2.0, 0.0, 3.0, 4.0], device=device)
    expected = np.array([0.1, 0.2, 0.3, 0.4]) * 10_000
    rows = weights.expand(10_000, 5)
    for drawn in (
        torch.multinomial(weights, 10_000, replacement=True),
        torch.multinomial(rows, 1).squeeze(1),
        torch.multinomial(rows, 3)[:, 0],
        torch.multinomial(rows, 2, replacement=True)[:, 1],
    ):
        counts = torch.bincount(drawn.cpu(), minlength=5).numpy()
        assert counts[2] == 0
        assert stats.chisquare(counts[[0, 1, 3, 4]], expected).pvalue > SIGNIFICANCE
    without = torch.multinomial(rows, 4).cpu()
    assert torch.equal(without.sort(1).values, torch.tensor([0, 1, 3, 4]).expand(10_000, 4))


def test_permutations(device, generator):
    for n in (0, 1, 2, 255, 100_000):
        drawn = torch.randperm(n, device=device)
        assert drawn.dtype == torch.int64
        assert torch.equal(drawn.cpu().sort().values, torch.arange(n))
    drawn = torch.randperm(3000, generator=seeded(generator, 8), device=device)
    expected = np.argsort(reference.draws_64(3000, 8, 0), kind="stable")
    np.testing.assert_array_equal(drawn.cpu().numpy(), expected)


# ---- Ranges and edge cases


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


LARGEST = {dtype: torch.iinfo(dtype).max for dtype in INTEGRAL}
LARGEST |= dict(zip(FLOATING, (2**24, 2**53, 2**11, 2**8), strict=True))


@pytest.mark.parametrize(("dtype", "largest"), [(torch.bool, 1), *LARGEST.items()])
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


def test_probabilities_zero_and_one(device):
    drawn = torch.empty(3000, dtype=torch.bool, device=device)
    assert not drawn.bernoulli_(0.0).any().item()
    assert drawn.bernoulli_(1.0).all().item()
    p = torch.tensor([0.0, 1.0], device=device).expand(500, 2)
    assert torch.equal(torch.bernoulli(p).cpu(), p.cpu())
    drawn = torch.empty(500, 2, device=device).bernoulli_(p.cpu().double())
    assert torch.equal(drawn.cpu(), p.cpu())


def test_small_shapes(device, generator):
    for shape in ((), (3, 0, 2), (0, 2), (1, 1)):
        for dtype in (torch.float32, torch.float64):
            for draw in DRAWS:
                given = torch.full(shape, 0.5, dtype=dtype, device=device)
                drawn = draw(given)
                assert (drawn is given) == (draw in FILLS.values())
                assert (drawn.shape, drawn.dtype) == (shape, dtype)
                assert drawn.isfinite().all().item()
    # Empty tensors draw nothing, others advance the generator by one or more.
    for draw in DRAWS:
        draw(torch.empty(0, device=device), generator)
    torch.randperm(0, generator=generator, device=device)
    assert generator.get_offset() == 0
    for calls, fill in enumerate(FILLS.values(), start=1):
        fill(torch.empty(3, device=device), generator)
        assert generator.get_offset() == calls


def test_complex(device):
    torch.manual_seed(27)
    drawn = torch.randn(50_000, dtype=torch.complex64, device=device)
    parts = torch.view_as_real(drawn)
    assert_same_distribution(parts[:, 0], stats.norm(0, 0.5**0.5).cdf)
    assert_same_distribution(parts[:, 1], stats.norm(0, 0.5**0.5).cdf)
    drawn = torch.rand(9999, dtype=torch.complex128, device=device)
    assert_same_distribution(torch.view_as_real(drawn).flatten(), "uniform")


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


# ---- Generators


def test_cpu_generator_is_left_alone(device):
    torch.manual_seed(31)
    state = torch.get_rng_state()
    x = torch.rand(10, device=device)
    torch.multinomial(x, 3, replacement=True)
    torch.poisson(x)
    torch.nn.functional.dropout(x)
    torch.randperm(10, device=device)
    assert torch.equal(torch.get_rng_state(), state)


def test_generators_of_other_devices_are_refused(device):
    for draw in DRAWS:
        with pytest.raises(RuntimeError, match="generator"):
            draw(torch.ones(3, device=device), torch.Generator())
    with pytest.raises(RuntimeError, match="generator"):
        torch.randperm(3, generator=torch.Generator(), device=device)


# ---- Errors

# Calls that the sweep over arguments does not try.
WRONG = {
    "uniform_range": lambda d: torch.zeros(3, device=d).uniform_(1, 0),
    "normal_tensor": lambda d: torch.normal(torch.zeros(3, device=d), -torch.ones(3, device=d)),
    "geometric": lambda d: torch.zeros(3, device=d).geometric_(1),
    "random_range": lambda d: torch.zeros(3, device=d).random_(3, 3),
    "random_full": lambda d: torch.zeros(3, dtype=torch.int32, device=d).random_(-(2**63), None),
    "randperm": lambda d: torch.randperm(-1, device=d),
    "randperm_byte": lambda d: torch.randperm(300, dtype=torch.uint8, device=d),
    "randperm_half": lambda d: torch.randperm(3000, dtype=torch.float16, device=d),
    "multinomial_count": lambda d: torch.multinomial(torch.ones(3, device=d), 4),
    "multinomial_negative": lambda d: torch.multinomial(-torch.ones(3, device=d), 2, True),
    "multinomial_nan": lambda d: torch.multinomial(torch.ones(3, device=d) * float("nan"), 2),
    "multinomial_inf": lambda d: torch.multinomial(torch.ones(3, device=d) / 0, 2, True),
    "multinomial_zero": lambda d: torch.multinomial(torch.zeros(3, device=d), 2, True),
    "multinomial_zero_one": lambda d: torch.multinomial(torch.zeros(3, device=d), 1),
    "negative_rate": lambda d: torch.poisson(torch.tensor([1.0, -1.0], device=d)),
    "nan_rate": lambda d: torch.poisson(torch.tensor([float("nan")], device=d)),
    "binomial_dtypes": lambda d: torch.binomial(
        torch.ones(3, device=d), torch.ones(3, device=d).double()
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_cpu(device, name):
    assert_raises_as_on_cpu(device, lambda x: WRONG[name](x.device), torch.empty(0))


def test_probabilities_out_of_range(device):
    for value in (1.5, -0.5, float("nan")):
        with pytest.raises(RuntimeError, match=r"p_in >= 0 && p_in <= 1"):
            torch.bernoulli(torch.full((3,), value, device=device))


# ---- Coverage


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
