"""Norms, variances and standard deviations of complex values, by those of real ones."""

from __future__ import annotations

from torch_outboard.ops.composed import composed
from torch_outboard.ops.row import COMPLEX, Row, dtype_number

_SPREAD = """
def spread(x: Tensor, dim: Optional[List[int]], correction: Optional[number], keep: bool) -> Tensor:
    parts = torch.view_as_real(x)
    first = torch.var(parts.select(-1, 0), dim, correction=correction, keepdim=keep)
    return first + torch.var(parts.select(-1, 1), dim, correction=correction, keepdim=keep)
"""


def rows() -> list[Row]:
    """Every row."""

    def row(overloads: str, body: str, **more: str) -> Row:
        return composed(overloads, body, dtypes=COMPLEX, family="reduction", **more)

    def of_spread(name: str, result: str) -> Row:
        body = f"squared = spread(self, dim, correction, keepdim)\nreturn {result}"
        return row(f"{name}.correction {name}.correction_out", body, helpers=_SPREAD)

    numbers = [dtype_number(dtype) for dtype in COMPLEX]
    mean = "torch.mean(self, dim, keepdim)"
    return [
        composed(
            "linalg_vector_norm linalg_vector_norm.out",
            "return torch.linalg_vector_norm(torch.abs(self), ord, dim, keepdim)",
            dtypes=COMPLEX,
            conditions=["!given(dtype)"],
            family="reduction",
        ),
        # The dtype is that of the elements; any other than a complex one is an error.
        composed(
            "linalg_vector_norm linalg_vector_norm.out",
            "return torch.linalg_vector_norm(torch.abs(self.to(dtype)), ord, dim, keepdim)",
            dtypes=COMPLEX,
            conditions=[f"given(dtype) && ({' || '.join(f'dtype == {n}' for n in numbers)})"],
            family="reduction",
        ),
        of_spread("var", "squared"),
        of_spread("std", "torch.sqrt(squared)"),
        of_spread("var_mean", f"squared, {mean}"),
        of_spread("std_mean", f"torch.sqrt(squared), {mean}"),
        row(
            "tanh_backward tanh_backward.grad_input",
            "return grad_output * torch.conj_physical(1 - output * output)",
        ),
    ]
