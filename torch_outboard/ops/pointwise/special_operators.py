"""Special functions as operators, most of them of the kind `pointwise`."""

from typing import Any

import torch

from torch_outboard.ops.decomposition import decomposition, require
from torch_outboard.ops.definition import FLOATS, INTEGERS, WIDE, Definition
from torch_outboard.ops.expression import FORMS, calls, pointwise, unary
from torch_outboard.ops.functions.special import POLYNOMIALS
from torch_outboard.ops.symbolic import SymTensor
from torch_outboard.ops.template import Plan, template

_OF_ONE = """bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 erfcx ndtri log_ndtr"""
_OF_X = """airy_ai spherical_bessel_j0 scaled_modified_bessel_k0 scaled_modified_bessel_k1"""


_FREXP = """
    __kernel void parts(OB_PARAMETERS) {
      OB_BEGIN
      OB_ITEM(i)
      const V value = self_load(i);
      int power = 0;
      V fraction = frexp(value, &power);
      if (value != value || fabs(value) == (V)INFINITY) {
        fraction = value;
        power = 0;
      }
      mantissa_store(i, fraction);
      exponent[i] = power;
    }
"""


@template("frexp.Tensor frexp.Tensor_out", source=_FREXP, dtypes=FLOATS)
def _frexp(plan: Plan, self: SymTensor) -> None:
    mantissa = plan.result("mantissa", like=self)
    plan.result("exponent", dtype=torch.int32, like=self)
    plan.launch("parts", mantissa.numel())


def definitions() -> list[Definition]:
    """Every definition."""
    polynomial = "special_{} special_{}.out " + " ".join(
        f"special_{{}}.{kind} special_{{}}.{kind}_out" for kind in ("x_scalar", "n_scalar")
    )
    scalar_only: dict[str, Any] = {"types": "float", "scalar": True}
    polygamma = "polygamma polygamma_ polygamma.out"
    return [
        pointwise(
            "round.decimals round_.decimals round.decimals_out", "self",
            "round_decimals(self, decimals)", FLOATS, scalars="decimals", scalar=True,
            same_output=True,
        ),
        _frexp,
        *unary("i0", FLOATS, types="float"),
        *calls("special_{} special_{}.out", "i0e i1 i1e", "self", FLOATS, types="float"),
        *calls("special_{} special_{}.out", _OF_ONE, "self", WIDE, types="float"),
        *calls("special_{} special_{}.out", _OF_X, "x", WIDE, types="float"),
        *calls(
            "special_{} special_{}.out special_{}.self_scalar special_{}.self_scalar_out"
            " special_{}.other_scalar special_{}.other_scalar_out",
            "zeta",
            "self other",
            WIDE,
            **scalar_only,
        ),
        *calls(polynomial, " ".join(POLYNOMIALS), "x n", WIDE, **scalar_only),
        # CPU does not promote integers for these operators.
        *calls(FORMS, "igamma igammac", "self other", FLOATS, scalar=True),
        *calls(polygamma, "digamma", "self", FLOATS, condition=lambda n: n == 0, types="float"),
        *calls(
            polygamma, "trigamma", "self", FLOATS, scalar=True, types="float",
            condition=lambda n: n == 1,
        ),
        pointwise(
            polygamma, "self", "polygamma(n, self)", FLOATS, scalars="n", scalar=True,
            types="float", condition=lambda n: n >= 2,
        ),
        # PyTorch's kernel of the functional form is for every device.
        decomposition(
            "mvlgamma_ mvlgamma.out",
            lambda self, p: torch.mvlgamma(self, p),
            dtypes=(*FLOATS, *INTEGERS),
        ),
        decomposition("ldexp.Tensor ldexp_ ldexp.out", _ldexp),
    ]  # fmt: skip


def _ldexp(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """self * 2 ** other; CPU's kernel has another rule for integers than for other powers."""
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        return self * torch.pow(2.0, other)
    if self.dtype.is_complex or other.dtype.is_floating_point or other.dtype.is_complex:
        return self * torch.pow(torch.full((), 2.0, dtype=self.dtype, device=self.device), other)
    require(other.dtype != torch.bool)
    wide = torch.promote_types(self.dtype, torch.float32)
    # A power of two may overflow where the result does not, so three factors make it. The limits
    # take every number to 0 or infinity, and a third of them is in range.
    largest = 2200 if wide == torch.float64 else 300
    power = other.to(torch.int64).clamp(-largest, largest)
    third = power.div(3, rounding_mode="trunc")
    result = self.to(wide)
    for part in (third, third, power - 2 * third):
        result = result * torch.exp2(part.to(wide))
    return result.to(self.dtype)
