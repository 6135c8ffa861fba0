"""Random numbers from the same draws of Philox as in csrc/random on the CPU.

The host serves calls with invalid arguments, and with limits that float16 or bfloat16 cannot
represent. Probabilities in a tensor are not checked: outside of [0, 1] they count as 0 or 1.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from torch_outboard.ops.definition import (
    BOOL,
    FLOATS,
    HALVES,
    INDICES,
    INTEGERS,
    ORDERED,
    SIGNED,
    WIDE,
    Definition,
    kernel_source,
)
from torch_outboard.ops.expression import pointwise
from torch_outboard.ops.symbolic import (
    Bool,
    Float,
    Int,
    Symbol,
    SymBool,
    SymFloat,
    SymInt,
    SymTensor,
    ceil,
    ceil_div,
    floor,
    given,
    has_dtype,
    log1p,
    log2_ceil,
    maximum,
    where,
)
from torch_outboard.ops.template import Plan, template

_UNIFORM, _EXPONENTIAL, _CAUCHY, _GEOMETRIC, _NORMAL, _LOG_NORMAL = range(6)

_NARROW = (*HALVES, torch.float32)
_DOUBLE = (torch.float64,)
_UNSIGNED = (torch.uint8,)


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        # Values are computed in float32, which has `surplus` more bits than the half types.
        _uniform(torch.float16, surplus=13),
        _uniform(torch.bfloat16, surplus=16),
        _uniform(torch.float32),
        _uniform(torch.float64),
        *(_exponential(dtype) for dtype in FLOATS),
        *(row for dtypes in (_NARROW, _DOUBLE) for row in _of_two_precisions(dtypes)),
        _bernoulli_of_number,
        _bernoulli_of_tensor,
        _bernoulli_of_self,
        _dropout,
        _dropout_backward,
        *(
            _integers_below(overload, dtypes)
            for overload in ("random_.from", "random_.to")
            for dtypes in ((*FLOATS, *SIGNED), _UNSIGNED)
        ),
        *(_integers(dtypes) for dtypes in (SIGNED, _UNSIGNED, BOOL)),
        *(_integers((dtype,)) for dtype in FLOATS),
        _randperm,
        _rrelu,
        _poisson,
        _binomial,
        _gamma,
        _dirichlet,
    ]


def _is_double(tensor: SymTensor) -> SymBool:
    return has_dtype(tensor, torch.float64)


def _items(plan: Plan, count: Int, per_block: Int = 4) -> SymInt:
    """The number of work-items, as in philox.cl: on a CPU each computes eight blocks."""
    return ceil_div(count, per_block * where(plan.on_processor, 8, 1))


def _draw(plan: Plan, kernel: str, count: SymInt, per_block: Int = 4) -> None:
    """Launches the kernel for `count` elements, `per_block` per block of Philox."""
    plan.parameters(count=count)
    # A call advances the generator's offset by one.
    plan.random(where(count > 0, 1, 0))
    plan.launch(kernel, _items(plan, count, per_block))


# ---- Continuous distributions


def _distribution(
    overload: str,
    number: int,
    dtypes: Sequence[torch.dtype],
    parameters: Callable[..., tuple[Float, Float, SymBool]],
    surplus: int = 0,
) -> Definition:
    """A definition that fills `self` from a distribution of distributions.cl.

    Args:
        parameters: from arguments of the operator to the two parameters of the distribution, and a
            condition on served calls.
    """
    bits = 64 if dtypes == _DOUBLE else 32

    @template(
        overload,
        "philox variates distributions",
        dtypes=dtypes,
        shapes_only=("self",),
        compute=torch.float64 if bits == 64 else torch.float32,
    )
    def definition(plan: Plan, self: SymTensor, generator: Symbol, **rest: Any) -> None:
        first, second, condition = parameters(**rest)
        plan.require(condition)
        plan.result("out", self.shape)
        plan.parameters(first=first, second=second)
        plan.constants(DISTRIBUTION=number, BITS=bits, SURPLUS=surplus)
        _draw(plan, "distribution", self.numel(), per_block=128 // bits)

    return definition


def _is_short(value: SymFloat) -> SymBool:
    """Whether float16 and bfloat16 represent the value exactly: it has at most 8 bits."""
    return (value * 8 == floor(value * 8)) & (abs(value) <= 16)


def _uniform(dtype: torch.dtype, surplus: int = 0) -> Definition:
    def limits(from_: SymFloat, to: SymFloat) -> tuple[Float, Float, SymBool]:
        if dtype in HALVES:
            representable = (to != 0) & _is_short(from_) & _is_short(to)
        else:
            limit = 1e300 if dtype == torch.float64 else 1e38
            representable = (abs(from_) <= limit) & (abs(to) <= limit)
        return from_, to, (from_ <= to) & representable

    return _distribution("uniform_", _UNIFORM, (dtype,), limits, surplus)


def _exponential(dtype: torch.dtype) -> Definition:
    def rate(lambd: SymFloat) -> tuple[Float, Float, SymBool]:
        return 1 / lambd, torch.finfo(dtype).tiny, (lambd > 0) & (lambd < 1e300)

    return _distribution("exponential_", _EXPONENTIAL, (dtype,), rate)


def _of_two_precisions(dtypes: Sequence[torch.dtype]) -> list[Definition]:
    return [
        _distribution("normal_", _NORMAL, dtypes, lambda mean, std: (mean, std, std >= 0)),
        _distribution("log_normal_", _LOG_NORMAL, dtypes, lambda mean, std: (mean, std, std > 0)),
        _distribution("cauchy_", _CAUCHY, dtypes, lambda median, sigma: (median, sigma, sigma > 0)),
        _distribution(
            "geometric_",
            _GEOMETRIC,
            dtypes if dtypes == _DOUBLE else (*dtypes, *INTEGERS),
            lambda p: (-1 / log1p(-p), 0.0, (p > 0) & (p < 1)),
        ),
    ]


# ---- Bernoulli draws


def _pass_threshold(plan: Plan, probability: SymFloat) -> None:
    """Passes, as two halves, the threshold below which a 32-bit draw is with this probability."""
    threshold = ceil(probability * 2**32)
    plan.parameters(threshold_high=threshold // 2**16, threshold_low=threshold % 2**16)


@template(
    "bernoulli_.float",
    "philox bernoulli",
    dtypes=ORDERED,
    shapes_only=("self",),
    compute=torch.float32,
)
def _bernoulli_of_number(plan: Plan, self: SymTensor, p: SymFloat) -> None:
    plan.require((p >= 0) & (p <= 1))
    plan.result("out", self.shape)
    _pass_threshold(plan, p)
    _draw(plan, "bernoulli", self.numel())


@template(
    "bernoulli_.Tensor",
    "philox bernoulli",
    dtypes=ORDERED,
    accepts={"p": FLOATS},
    compute=torch.float32,
    reports=RuntimeError("a probability is not in [0, 1]"),
)
def _bernoulli_of_tensor(plan: Plan, self: SymTensor, p: SymTensor) -> None:
    single = p.numel() == 1
    plan.require((single & (p.dim() <= self.dim())) | (p.shape == self.shape))
    plan.result("out", initial=self)
    plan.parameters(single=single)
    _draw(plan, "bernoulli", self.numel())


_SELF_AS_P = """
#define HAS_p 1
#define p_load self_load
#define p_value self_value
"""


@template(
    "bernoulli.out",
    dtypes=FLOATS,
    source=kernel_source("philox") + _SELF_AS_P + kernel_source("bernoulli"),
    compute=torch.float32,
    resizes_silently=True,
)
def _bernoulli_of_self(plan: Plan, self: SymTensor) -> None:
    plan.result("out")
    plan.parameters(single=0)
    _draw(plan, "bernoulli", self.numel())


@template("native_dropout native_dropout.out", "philox bernoulli", dtypes=FLOATS)
def _dropout(plan: Plan, input: SymTensor, p: SymFloat, train: SymBool) -> None:
    plan.require(where(given(train), train, True), (p >= 0) & (p <= 1) & (input.numel() > 0))
    plan.result("out", like=input)
    plan.result("mask", dtype=torch.bool, like=input)
    _pass_threshold(plan, 1 - p)
    plan.parameters(scale=where(p == 1, 0.0, 1 / (1 - p)))
    _draw(plan, "dropout", input.numel())


_dropout_backward = pointwise(
    "native_dropout_backward native_dropout_backward.out",
    {"grad_output": "grad", "mask": "mask"},
    "grad * (mask * scale)",
    FLOATS,
    scalars="scale",
    same_output=True,
)


# ---- Integers


_define_integers = partial(
    template, kernels="philox random_integers", shapes_only=("self",), compute=torch.int64
)


def _draw_integers(plan: Plan, tensor: SymTensor, small: Bool) -> None:
    """Launches the draws; `small`: the range needs only 32 bits per draw."""
    plan.result("out", tensor.shape)
    plan.constants(SMALL=small)
    _draw(plan, "random_integers", tensor.numel(), per_block=where(small, 4, 2))


def _largest(tensor: SymTensor, dtypes: Sequence[torch.dtype]) -> Int:
    """The largest served limit: the exact integers of the dtype, at most 2**53."""
    if dtypes == _UNSIGNED:
        return 256
    size = tensor.element_size()
    floating = where(size == 8, 2**53, where(size == 4, 2**24, 256))
    integral = where(size == 8, 2**53, where(size == 4, 2**31, where(size == 2, 2**15, 128)))
    return where(tensor.is_floating_point(), floating, integral)


def _integers_below(overload: str, dtypes: Sequence[torch.dtype]) -> Definition:
    """Integers below `to`, from 0 on or from `from`."""

    @_define_integers(overload, dtypes=dtypes)
    def definition(plan: Plan, self: SymTensor, to: SymInt, **rest: Any) -> None:
        has_from, largest = "from_" in rest, _largest(self, dtypes)
        first: Int = rest.get("from_", 0)
        least = where(self.element_size() == 1, 0, -largest)
        plan.require(given(to), (first < to) & (to <= largest), first >= least)
        plan.scalars(*([rest["from_"]] if has_from else []), to)
        plan.constants(HAS_FROM=has_from)
        _draw_integers(plan, self, small=to - first <= 2**24)

    return definition


def _integers(dtypes: Sequence[torch.dtype]) -> Definition:
    floating = dtypes[0].is_floating_point

    @_define_integers("random_", dtypes=dtypes)
    def definition(plan: Plan, self: SymTensor) -> None:
        digits = _digits(self, dtypes)
        plan.constants(DIGITS=digits, FLOATING=floating)
        _draw_integers(plan, self, small=digits <= (23 if floating else 24))

    return definition


def _digits(tensor: SymTensor, dtypes: Sequence[torch.dtype]) -> Int:
    """The number of bits of a draw that the dtype represents."""
    if dtypes == SIGNED:
        return 8 * tensor.element_size() - 1
    if dtypes[0].is_floating_point:
        return 1 - int(math.log2(torch.finfo(dtypes[0]).eps))
    return 1 if dtypes == BOOL else 8


@template(
    "randperm.generator_out",
    "philox random_integers",
    dtypes=(*INDICES, *WIDE),
    compute=torch.int64,
)
def _randperm(plan: Plan, n: SymInt) -> None:
    plan.require((n >= 0) & (n <= 2**24))
    plan.result("permutation", [n])
    plan.temporary("keys", n, torch.uint64)
    plan.temporary("locations", n, torch.int32)
    plan.parameters(n=n)
    plan.random(where(n > 0, 1, 0))
    levels = log2_ceil(n)
    plan.launch("randperm_draw", _items(plan, n, per_block=2))
    plan.launch("randperm_sort", n, repeat=levels * (levels + 1) // 2)
    plan.launch("randperm_store", n)


# ---- Activations


@template(
    "rrelu_with_noise rrelu_with_noise_ rrelu_with_noise.out",
    "philox variates distributions",
    dtypes=FLOATS,
    strided=("noise",),
)
def _rrelu(
    plan: Plan,
    self: SymTensor,
    noise: SymTensor,
    lower: SymFloat,
    upper: SymFloat,
    training: SymBool,
) -> None:
    span = upper - lower
    plan.require(
        training,
        noise.shape == self.shape,
        (lower <= upper) & (span <= torch.finfo(torch.float32).max),
    )
    plan.result("out")
    plan.parameters(low=lower, span=span)
    bits = where(_is_double(self), 64, 32)
    plan.constants(BITS=bits)
    _draw(plan, "rrelu", self.numel(), per_block=128 // bits)


# ---- Rejection sampling, which takes an unknown number of draws
#
# Results equal the CPU's bit by bit. `torch_outboard/kernels/random_numbers/rejection.cl` computes
# in float64, also for narrower dtypes: on devices without float64 the host runs these operators.

_POISSON, _BINOMIAL, _GAMMA = range(3)

# Equals REJECTION_BLOCKS in rejection.cl.
_BLOCKS = 64


_rejection = partial(template, kernels="philox rejection", compute=torch.float64)


def _reserve_draws(plan: Plan, tensor: SymTensor) -> None:
    plan.random(where(tensor.numel() > 0, _BLOCKS, 0))


def _draw_values(plan: Plan, distribution: int, parameter: SymTensor) -> None:
    """Draws a value for each element of `parameter`, the first parameter of the distribution."""
    plan.result("out")
    plan.constants(DISTRIBUTION=distribution)
    _reserve_draws(plan, parameter)
    plan.launch("rejection_values", parameter.numel())


@_rejection(
    "poisson",
    dtypes=FLOATS,
    reports=RuntimeError("invalid Poisson rate, expected rate to be non-negative"),
)
def _poisson(plan: Plan, self: SymTensor) -> None:
    _draw_values(plan, _POISSON, self)


@_rejection("binomial", dtypes=WIDE)
def _binomial(plan: Plan, count: SymTensor, prob: SymTensor) -> None:
    # The host serves other shapes.
    plan.require(count.shape == prob.shape)
    _draw_values(plan, _BINOMIAL, count)


def _smallest(tensor: SymTensor) -> SymFloat:
    """The smallest normal number of a tensor's dtype, which is one of WIDE."""
    single, double = (torch.finfo(dtype).tiny for dtype in WIDE)
    return where(_is_double(tensor), double, single)


@_rejection("_standard_gamma", dtypes=WIDE)
def _gamma(plan: Plan, self: SymTensor) -> None:
    plan.parameters(smallest=_smallest(self))
    _draw_values(plan, _GAMMA, self)


@_rejection("_sample_dirichlet", dtypes=WIDE)
def _dirichlet(plan: Plan, self: SymTensor) -> None:
    length = where(self.dim() > 0, maximum(self.size(-1), 1), 1)
    plan.result("out")
    for name in ("factors", "exponents"):
        plan.temporary(name, self.numel(), torch.float64)
    # The largest share is the largest number below 1.
    single, double = (1 - torch.finfo(dtype).eps / 2 for dtype in WIDE)
    largest = where(_is_double(self), double, single)
    plan.parameters(length=length, smallest=_smallest(self), largest=largest)
    _reserve_draws(plan, self)
    plan.launch("gamma_parts", self.numel())
    plan.launch("shares", self.numel() // length)
