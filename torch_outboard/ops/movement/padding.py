"""Padding, and its gradients."""

from collections.abc import Iterator

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import COMPLEX, EVERY, FLOATS, NUMBERS, Definition
from torch_outboard.ops.movement.rearranging import (
    CLAMPED,
    REFLECTED,
    SHIFTED,
    launch_lines,
    moving,
    remap,
)
from torch_outboard.ops.symbolic import SymBool, SymFloat, SymInts, SymTensor
from torch_outboard.ops.template import Plan, template


def _pairs_for(self: SymTensor, pad: SymInts) -> SymBool:
    """Whether `pad` has two amounts for each padded dimension."""
    return (pad.len() % 2 == 0) & (pad.len() <= 2 * self.dim())


def _has_as_much(self: SymTensor, cuts: SymInts) -> SymBool:
    """Whether no dimension is cut by more than its size; otherwise raises, which declines."""
    return self.shape.padded(cuts).len() == self.dim()


def _cut(self: torch.Tensor, pad: list[int]) -> torch.Tensor:
    for k in range(len(pad) // 2):
        size = self.size(-1 - k) + pad[2 * k] + pad[2 * k + 1]
        self = self.narrow(-1 - k, -pad[2 * k], size)
    return self.clone()


def _only_cuts(self: SymTensor, pad: SymInts) -> SymBool:
    return ((pad.len() == 0) | (pad.max() <= 0)) & _pairs_for(self, pad) & _has_as_much(self, pad)


@moving("constant_pad_nd", dtypes=EVERY)
def constant(plan: Plan, self: SymTensor, pad: SymInts, value: SymFloat) -> None:
    """Padding with a number; negative amounts cut."""
    plan.require(self.dim() <= 8, _pairs_for(self, pad), _has_as_much(self, pad.clamp_max(0)))
    out = plan.result("out", self.shape.padded(pad), memory_format=self)
    plan.scalars(value)
    remap(plan, out, SHIFTED, pad)


def _conditions(self: SymTensor, padding: SymInts, dims: int, reflects: bool) -> Iterator[SymBool]:
    """PyTorch's conditions on reflection and replication padding."""
    yield (self.dim() == dims + 1) | (self.dim() == dims + 2)
    yield padding.len() == 2 * dims
    for k in range(dims):
        n = self.size(-(k + 1))
        left, right = padding[2 * k], padding[2 * k + 1]
        yield (n > 0) & (n + left + right > 0)
        if reflects:
            yield (left < n) & (right < n)
    yield self.size(-(dims + 1)) > 0  # channels; the batch may be empty


def of_dims(dims: int, *, reflects: bool) -> list[Definition]:
    """Reflection, or else replication, of one to three dimensions, and the gradient."""
    name = f"{'reflection' if reflects else 'replication'}_pad{dims}d"
    rule = REFLECTED if reflects else CLAMPED

    @moving(f"{name} {name}.out", dtypes=NUMBERS)
    def pad(plan: Plan, self: SymTensor, padding: SymInts) -> None:
        plan.require(*_conditions(self, padding, dims, reflects))
        out = plan.result("out", self.shape.padded(padding), memory_format=self)
        remap(plan, out, rule, padding)

    @template(
        f"{name}_backward {name}_backward.grad_input",
        "remap",
        dtypes=(*FLOATS, *COMPLEX),
        strided=("grad_output", "out"),
    )
    def pad_backward(plan: Plan, grad_output: SymTensor, self: SymTensor, padding: SymInts) -> None:
        plan.require(
            *_conditions(self, padding, dims, reflects),
            grad_output.shape == self.shape.padded(padding),
        )
        # The meta function of replication returns row-major strides; compiled graphs rely on them.
        out = plan.result("out", self.shape, memory_format=self if reflects else None)
        plan.parameters(padded_dims=dims, amounts=padding)
        plan.constants(MODE=rule)
        launch_lines(plan, "reflect_backward", out)

    return [pad, pad_backward]


def definitions() -> list[Definition]:
    """Every definition."""
    # Negative amounts only, which keeps the order of the strides.
    made = [decomposition("constant_pad_nd", _cut, condition=_only_cuts), constant]
    for dims in (1, 2, 3):
        made += of_dims(dims, reflects=True)
        made += of_dims(dims, reflects=False)
    return made
