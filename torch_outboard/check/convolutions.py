"""`convolution`: its three passes, strides, padding, dilation, groups, layouts, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_outboard.check.catalog import check
from torch_outboard.check.operands import (
    Operand,
    accumulation_of,
    call,
    dtypes_of,
    exact,
    expect_near,
    filled,
    numbers,
)
from torch_outboard.check.outcome import NotTestable
from torch_outboard.check.session import Session
from torch_outboard.drivers import contract
from torch_outboard.drivers.contract import Activation, ConvolutionPass

WRITTEN = {
    ConvolutionPass.FORWARD: "output",
    ConvolutionPass.BACKWARD_INPUT: "input",
    ConvolutionPass.BACKWARD_WEIGHT: "weight",
}
SAYS = (
    "The pass names the operand that is written: it shares memory with no other, and what it held"
)
ADVICE = "Return OB_UNSUPPORTED for the case until it is right: the kit's own kernels then do it."


@dataclass(frozen=True)
class Case:
    """One convolution; numbers of `stride`, `padding` and `dilation` hold in all dimensions."""

    which: ConvolutionPass = ConvolutionPass.FORWARD
    dtype: torch.dtype = torch.float32
    batch: int = 2
    channels: int = 4
    outputs: int = 6
    image: tuple[int, ...] = (7, 9)
    kernel: tuple[int, ...] = (3, 2)
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    channels_last: bool = False
    bias: bool = False
    activation: Activation = Activation.NONE

    def __str__(self) -> str:
        parts = [
            f"{self.which.name.lower()} {str(self.dtype).removeprefix('torch.')}",
            f"image {self.batch} x {self.channels} x {self.image}",
            f"{self.outputs} kernels of {self.kernel}",
        ]
        for name in ("stride", "padding", "dilation", "groups"):
            value = getattr(self, name)
            if value != (0 if name == "padding" else 1):
                parts.append(f"{name} {value}")
        parts += ["channels last"] if self.channels_last else []
        parts += ["bias"] if self.bias else []
        parts += [self.activation.name] if self.activation != Activation.NONE else []
        return ", ".join(parts)


def _convolved(case: Case, image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    function = getattr(torch.nn.functional, f"conv{len(case.image)}d")
    result: torch.Tensor = function(
        image, weight, None, case.stride, case.padding, case.dilation, case.groups
    )
    return result


def _results(
    case: Case, image: torch.Tensor, weight: torch.Tensor, output: torch.Tensor
) -> torch.Tensor:
    """What the pass writes, from operands in a wide dtype."""
    if case.which == ConvolutionPass.FORWARD:
        return _convolved(case, image, weight)
    if case.which == ConvolutionPass.BACKWARD_INPUT:
        wanted = image = image.clone().requires_grad_()
    else:
        wanted = weight = weight.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(_convolved(case, image, weight), wanted, output)
    return gradient


def _laid_out(case: Case, values: torch.Tensor) -> torch.Tensor:
    if not case.channels_last:
        return values.contiguous()
    order = [0, *range(2, values.dim()), 1]
    back = [0, values.dim() - 1, *range(1, values.dim() - 1)]
    return values.permute(order).contiguous().permute(back)


class _Convolution:
    """A case with its operands on the device, and what it should give."""

    def __init__(self, driver: Session, queue: int, case: Case) -> None:
        self.driver, self.queue, self.case = driver, queue, case
        c, wide = case, exact(case.dtype)
        image = numbers(c.dtype, c.batch, c.channels, *c.image, seed=1)
        weight = numbers(c.dtype, c.outputs, c.channels // c.groups, *c.kernel, seed=2)
        shape = _convolved(c, image.double(), weight.double()).shape
        output = numbers(c.dtype, *shape, seed=3)
        tensors = {"input": image, "weight": weight, "output": output}
        exactly = [tensor.double() for tensor in tensors.values()]
        result = _results(c, *exactly)
        size = _results(c, *(tensor.abs() for tensor in exactly))
        count = _results(c, *(torch.ones_like(tensor) for tensor in exactly))
        self.depth = int(count.max())
        written = WRITTEN[c.which]
        tensors[written] = filled(c.dtype, _laid_out(c, tensors[written]))
        self.operands = {
            name: Operand.of(driver, queue, tensors[name] if name == written else _laid_out(c, t))
            for name, t in tensors.items()
        }
        self.bias = None
        if c.bias:
            bias = numbers(c.dtype, result.shape[1], seed=4)
            self.bias = Operand.of(driver, queue, bias)
            row = bias.double().view(1, -1, *[1] * len(c.image))
            result, size = result + row, size + row.abs()
        if c.activation == Activation.RELU:
            result = result.relu()
        self.wanted, self.size = result.to(wide), size

    def description(self, **fields: Any) -> Any:
        c = self.case
        made = contract.described(
            contract.Convolution,
            pass_=c.which,
            spatial_dimensions=len(c.image),
            groups=c.groups,
            activation=c.activation,
            accumulation=accumulation_of(c.dtype),
            **{name: operand.pointer for name, operand in self.operands.items()},
            **fields,
        )
        if self.bias is not None:
            made.bias = self.bias.pointer
        for name in ("stride", "padding", "dilation"):
            getattr(made, name)[: len(c.image)] = [getattr(c, name)] * len(c.image)
        return made

    def compute(self) -> bool:
        """Whether the driver took the convolution, whose result then is right."""
        if not call(self.driver, self.queue, "convolution", self.description):
            return False
        found = self.operands[WRITTEN[self.case.which]].read(self.driver, self.queue)
        expect_near(found, self.wanted, self.size, self.depth, str(self.case))
        return True


def _check(driver: Session, cases: Sequence[Case]) -> None:
    """Computes each case; not testable if the driver declines all."""
    dtypes = dtypes_of(driver)
    queue, taken = driver.make_queue(), 0
    for case in cases:
        if case.dtype in dtypes:
            taken += _Convolution(driver, queue, case).compute()
    if not taken:
        raise NotTestable("the driver declines all of these convolutions (OB_UNSUPPORTED)")


def _shapes(which: ConvolutionPass) -> list[Case]:
    return [
        Case(which, stride=stride, padding=padding, dilation=dilation, channels_last=last)
        for stride, padding, dilation in ((1, 0, 1), (2, 0, 1), (1, 1, 1), (1, 0, 2), (2, 2, 2))
        for last in (False, True)
    ] + [
        Case(which, groups=2),
        Case(which, groups=4, outputs=8, channels_last=True),
        Case(which, channels=1, outputs=1, batch=1),
        Case(which, image=(20,), kernel=(5,), padding=2),
        Case(which, image=(4, 5, 6), kernel=(2, 3, 1), stride=2, padding=1),
        Case(which, image=(1, 1), kernel=(1, 1)),
        Case(which, channels=70, outputs=3, image=(5, 5), kernel=(3, 3)),
    ]


@check("convolution", says=SAYS, advice=ADVICE)
def forward(driver: Session) -> None:
    """The output from input and weight."""
    _check(driver, _shapes(ConvolutionPass.FORWARD))


@check("convolution", says=SAYS, advice=ADVICE)
def backward_input(driver: Session) -> None:
    """The input from output and weight, which is a transposed convolution, too."""
    _check(driver, _shapes(ConvolutionPass.BACKWARD_INPUT))


@check("convolution", says=SAYS, advice=ADVICE)
def backward_weight(driver: Session) -> None:
    """The weight from input and output."""
    _check(driver, _shapes(ConvolutionPass.BACKWARD_WEIGHT))


@check(
    "convolution",
    says="A vector that is added to what is written, one value for each of its channels.",
    advice=ADVICE,
)
def bias_and_activation(driver: Session) -> None:
    """A value for each channel is added, negative results become 0."""
    cases = []
    for which in (ConvolutionPass.FORWARD, ConvolutionPass.BACKWARD_INPUT):
        cases += [Case(which, bias=True), Case(which, bias=True, groups=2, channels_last=True)]
        cases += [Case(which, bias=True, activation=Activation.RELU)]
    _check(driver, cases)


@check("convolution", says="all of one dtype, channels-last by their strides", advice=ADVICE)
def dtypes(driver: Session) -> None:
    """Every dtype of the device that the library takes."""
    real = [dtype for dtype in dtypes_of(driver) if not dtype.is_complex]
    _check(driver, [Case(which, dtype, padding=1) for dtype in real for which in ConvolutionPass])
