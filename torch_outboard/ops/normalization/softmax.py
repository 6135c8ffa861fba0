"""Softmax, its logarithm, their gradients, and masked softmax."""

from functools import partial

import torch
from torch import Tensor

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, Definition
from torch_outboard.ops.symbolic import SymBool, SymInt, SymTensor, ceil_div, same_dtype, where
from torch_outboard.ops.template import Lines, Plan, lines_of, template


def definitions() -> list[Definition]:
    """Every operator definition of this module."""
    return [
        *(define(log) for log in (False, True) for define in (_softmax, _softmax_backward)),
        # Masked elements are ignored; their results are 0.
        decomposition("_masked_softmax", _masked_softmax, dtypes=FLOATS),
        decomposition("_masked_softmax_backward", _masked_softmax_backward, dtypes=FLOATS),
    ]


_define = partial(template, kernels="rows softmax", dtypes=FLOATS, vectors=True)


def _launch(plan: Plan, x: SymTensor, lines: Lines, *, log: bool, forward: bool) -> None:
    """Launches a work-group per line of adjacent elements, or a work-item per 8 other lines."""
    n, inner = lines.n, lines.inner
    of_rows = inner == 1
    plan.parameters(n=n, inner=inner)
    plan.constants(LOG=log, FORWARD=forward, ROWS=of_rows, HELD=where(of_rows, _held(plan, n), 0))
    plan.launch("softmax", groups=x.numel() // n, when=of_rows)
    plan.launch("softmax", x.numel() // (n * inner) * ceil_div(inner, 8), when=~of_rows)


def _held(plan: Plan, n: SymInt) -> SymInt:
    """The number of elements of a row that a work-item of a GPU holds in registers, or 0."""
    fits_in = (n % 16 == 0) & (n <= 16 * plan.group_lanes)
    return where(~plan.on_processor & fits_in, 16, 0)


def _softmax(log: bool) -> Definition:
    name = "_log_softmax" if log else "_softmax"

    @_define(f"{name} {name}.out")
    def softmax(plan: Plan, self: SymTensor, dim: SymInt, half_to_float: SymBool) -> None:
        plan.require(~half_to_float)
        lines = lines_of(self, dim)
        plan.result("out")
        _launch(plan, self, lines, log=log, forward=True)

    return softmax


def _softmax_backward(log: bool) -> Definition:
    name = f"{'_log_softmax' if log else '_softmax'}_backward_data"

    @_define(f"{name} {name}.out")
    def softmax_backward(
        plan: Plan, grad_output: SymTensor, output: SymTensor, dim: SymInt, input_dtype: SymInt
    ) -> None:
        lines = lines_of(grad_output, dim)
        plan.require(output.shape == grad_output.shape, same_dtype(input_dtype, grad_output))
        plan.result("grad")
        _launch(plan, grad_output, lines, log=log, forward=False)

    return softmax_backward


# mask_type of a mask with 2 dimensions for scores of shape (batch, heads, L, L).
_L_BY_L, _BATCH_BY_L = 0, 1


def _masked_softmax(self: Tensor, mask: Tensor, dim: int | None, mask_type: int | None) -> Tensor:
    require(mask.dtype == torch.bool)
    if mask.dim() == 2 and self.dim() == 4:
        require(mask_type in (_L_BY_L, _BATCH_BY_L) and self.size(2) == self.size(3))
        require(mask.shape == (self.size(2 if mask_type == _L_BY_L else 0), self.size(2)))
        mask = mask[None, None] if mask_type == _L_BY_L else mask[:, None, None]
    else:
        require(mask.shape == self.shape)
    scores = self.masked_fill(mask, float("-inf"))
    result = torch._softmax(scores, -1 if dim is None else dim, False)
    like = torch.empty_like(self)
    return result if result.stride() == like.stride() else like.copy_(result)


def _masked_softmax_backward(
    grad_output: Tensor, output: Tensor, mask: Tensor, dim: int | None
) -> Tensor:
    require(mask.dtype == torch.bool and mask.shape == output.shape == grad_output.shape)
    left = output.masked_fill(mask, 0.0)
    grad = grad_output.masked_fill(mask, 0.0)
    grad = torch._softmax_backward_data(grad, left, -1 if dim is None else dim, output.dtype)
    return grad.masked_fill_(mask, 0.0)
