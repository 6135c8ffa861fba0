"""Special functions as operators, most of them of the kind `pointwise`."""

from __future__ import annotations

import torch

from torch_outboard.ops.decomposition import decomposition
from torch_outboard.ops.definition import FLOATS, INTEGERS, Definition
from torch_outboard.ops.expression import pointwise, unary
from torch_outboard.ops.functions.polynomials import POLYNOMIALS
from torch_outboard.ops.requirements import at_least, not_of_dtype
from torch_outboard.ops.symbolic import SymBool, SymInt, SymTensor
from torch_outboard.ops.template import Plan, template

# For operators without half-precision kernels on CPU.
WIDE = (torch.float32, torch.float64)

_OF_ONE = """bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 modified_bessel_i1
modified_bessel_k0 modified_bessel_k1 erfcx ndtri log_ndtr"""
_OF_X = """airy_ai spherical_bessel_j0 scaled_modified_bessel_k0 scaled_modified_bessel_k1"""


def _with_out(
    name: str, operand: str, function: str, dtypes: tuple[torch.dtype, ...]
) -> Definition:
    overloads = f"{name} {name}.out"
    return pointwise(overloads, operand, f"{function}({operand})", dtypes, types="float")


def _binary() -> list[Definition]:
    zeta = "special_zeta.{0} special_zeta.{0}_out"
    rows = [
        pointwise(
            f"special_zeta special_zeta.out {zeta.format('self_scalar')}"
            f" {zeta.format('other_scalar')}",
            "self other",
            "zeta(self, other)",
            WIDE,
            types="float",
            scalar=True,
        )
    ]
    for name in POLYNOMIALS:
        operator = f"special_{name}"
        overloads = [operator, f"{operator}.out"]
        for kind in ("x_scalar", "n_scalar"):
            overloads += [f"{operator}.{kind}", f"{operator}.{kind}_out"]
        rows.append(
            pointwise(" ".join(overloads), "x n", f"{name}(x, n)", WIDE, types="float", scalar=True)
        )
    for name in ("igamma", "igammac"):
        # CPU does not promote integers for these operators.
        rows.append(
            pointwise(
                f"{name} {name}_ {name}.out",
                "self other",
                f"{name}(self, other)",
                FLOATS,
                scalar=True,
            )
        )
    return rows


def _row_major_mvlgamma(self: torch.Tensor, p: int) -> torch.Tensor:
    # CPU reduces over a new dimension, so its result is row-major.
    dtype = self.dtype if self.is_floating_point() else torch.get_default_dtype()
    return torch.mvlgamma(self, p, out=self.new_empty(self.shape, dtype=dtype))


def _needs_row_major(self: SymTensor, p: SymInt) -> SymBool:
    return (self.dim() >= 2) & (p >= 1)


def _polygamma() -> list[Definition]:
    forms = "polygamma polygamma_ polygamma.out"
    return [
        pointwise(forms, "self", "digamma(self)", FLOATS, requires={"n": 0}, types="float"),
        pointwise(
            forms,
            "self",
            "trigamma(self)",
            FLOATS,
            requires={"n": 1},
            scalar=True,
            types="float",
        ),
        pointwise(
            forms,
            "self",
            "polygamma(n, self)",
            FLOATS,
            scalars="n",
            requires={"n": at_least(2)},
            scalar=True,
            types="float",
        ),
        decomposition(
            "mvlgamma",
            _row_major_mvlgamma,
            dtypes=(*FLOATS, *INTEGERS),
            condition=_needs_row_major,
            family="pointwise",
        ),
        pointwise(
            "mvlgamma mvlgamma_ mvlgamma.out",
            "self",
            "mvlgamma(self, p)",
            FLOATS,
            scalars="p",
            requires={"p": at_least(1), "self": not_of_dtype(torch.bool)},
            scalar=True,
            types="float",
        ),
    ]


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


def _round_decimals() -> Definition:
    return pointwise(
        "round.decimals round_.decimals round.decimals_out",
        "self",
        "round_decimals(self, decimals)",
        FLOATS,
        scalars="decimals",
        scalar=True,
        same_output=True,
    )


def _frexp() -> Definition:
    @template("frexp.Tensor frexp.Tensor_out", source=_FREXP, dtypes=FLOATS, family="pointwise")
    def frexp(plan: Plan, self: SymTensor) -> None:
        mantissa = plan.result("mantissa", like=self)
        plan.result("exponent", dtype=torch.int32, like=self)
        plan.launch("parts", mantissa.numel())

    return frexp


def definitions() -> list[Definition]:
    """Every definition."""
    return [
        _round_decimals(),
        _frexp(),
        *unary("i0", FLOATS, types="float"),
        *(_with_out(f"special_{name}", "self", name, FLOATS) for name in ("i0e", "i1", "i1e")),
        *(_with_out(f"special_{name}", "self", name, WIDE) for name in _OF_ONE.split()),
        *(_with_out(f"special_{name}", "x", name, WIDE) for name in _OF_X.split()),
        *_binary(),
        *_polygamma(),
    ]
