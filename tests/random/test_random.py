"""Random numbers: ranges, generators, errors, and that no operator is missing."""

from __future__ import annotations

import pytest
import torch
from scipy import stats

from tests.random.random_draws import (
    FILLS,
    FLOATING,
    INTEGRAL,
    assert_raises_as_on_cpu,
    assert_same_distribution,
    seeded,
)

pytestmark = pytest.mark.separate


# ---- ranges and edge cases ---------------------------------------------------------------------


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


# ---- generators --------------------------------------------------------------------------------


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
    "negative_rate": lambda d: torch.poisson(torch.tensor([1.0, -1.0], device=d)),
    "nan_rate": lambda d: torch.poisson(torch.tensor([float("nan")], device=d)),
    "poisson_integers": lambda d: torch.poisson(torch.ones(3, device=d).int()),
    "gamma_integers": lambda d: torch._standard_gamma(torch.ones(3, device=d).int()),
    "gamma_half": lambda d: torch._standard_gamma(torch.ones(3, device=d).half()),
    "dirichlet_half": lambda d: torch._sample_dirichlet(torch.ones(3, device=d).bfloat16()),
    "binomial_count": lambda d: torch.binomial(*[torch.ones(3, device=d).int()] * 2),
    "binomial_prob": lambda d: torch.binomial(
        torch.ones(3, device=d), torch.ones(3, device=d).int()
    ),
    "binomial_half": lambda d: torch.binomial(*[torch.ones(3, device=d).half()] * 2),
    "binomial_dtypes": lambda d: torch.binomial(
        torch.ones(3, device=d), torch.ones(3, device=d).double()
    ),
    "binomial_sizes": lambda d: torch.binomial(torch.ones(3, device=d), torch.ones(2, device=d)),
    "rrelu_noise": lambda d: torch.ops.aten.rrelu_with_noise(
        torch.ones(3, device=d), torch.ones(2, device=d), 0.1, 0.3, True
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_the_cpu(device, name):
    assert_raises_as_on_cpu(WRONG[name], device)


@pytest.mark.parametrize("value", [1.5, -0.5, float("nan")])
def test_probabilities_out_of_range(device, value):
    p = torch.full((3,), value, device=device)
    with pytest.raises(RuntimeError, match=r"p_in >= 0 && p_in <= 1"):
        torch.bernoulli(p)


# ---- coverage ----------------------------------------------------------------------------------


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
