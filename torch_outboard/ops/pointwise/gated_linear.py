"""Gated linear units with their derivatives.

Along a dimension the first half of the elements, a, is multiplied by the logistic function of the
second half, b.
"""

from __future__ import annotations

from torch_outboard.ops.row import FLOATS, Row
from torch_outboard.ops.template import Launch, Result, templated

# Kernels run over half of the elements: `first` and `second` are the places of a and b.
_PAIR = """
static inline V logistic(const V x) { return 1 / (1 + exp(-x)); }

#define OB_PAIR                                          \\
  OB_ITEM(i)                                             \\
  const ob_index first = i + (i / half_size) * half_size; \\
  const ob_index second = first + half_size;
"""


def _kernel(body: str) -> str:
    return f"{_PAIR}\n__kernel void glu(OB_PARAMETERS) {{\nOB_BEGIN\nOB_PAIR\n{body}\n}}\n"


_FORWARD = _kernel("out_store(i, self_load(first) * logistic(self_load(second)));")
_BACKWARD = _kernel("""
    const V gate = logistic(self_load(second));
    const V grad = grad_output_load(i) * gate;
    grad_input_store(first, grad);
    grad_input_store(second, grad * (1 - gate) * self_load(first));
""")
_JVP = _kernel("""
    const V gate = logistic(x_load(second));
    out_store(i, dx_load(first) * gate + glu_load(i) * (1 - gate) * dx_load(second));
""")
# The derivative of both parts of the backward pass.
_BACKWARD_JVP = _kernel("""
    const V gate = logistic(x_load(second));
    const V slope = gate * (1 - gate);
    const V a = x_load(first), da = dx_load(first), db = dx_load(second);
    const V grad = grad_x_load(first);
    const V dgrad = dgrad_glu_load(i) * gate + grad * (1 - gate) * db;
    out_store(first, dgrad);
    out_store(second, (dgrad * a + grad * da) * (1 - gate) - grad * a * slope * db);
""")


def _halves(of: str) -> tuple[dict[str, str], dict[str, str]]:
    """`let` and `numbers` of rows in which `of` has both halves."""
    let = {"d": f"wrap(dim, dims({of}))", "half": f"size({of}, d) // 2"}
    return let, {"half_size": f"half * prod(sizes({of})[d + 1:])"}


def rows() -> list[Row]:
    """Every row."""
    let, numbers = _halves("self")
    let_x, numbers_x = _halves("x")
    even = ["dims(self) > 0", "size(self, d) % 2 == 0"]
    even_x = ["dims(x) > 0", "size(x, d) % 2 == 0"]
    return [
        templated(
            "glu glu.out",
            None,
            Launch("glu", "numel(out)"),
            source=_FORWARD,
            dtypes=FLOATS,
            family="pointwise",
            meta="aten::glu",
            let=let,
            numbers=numbers,
            conditions=even,
        ),
        templated(
            "glu_backward glu_backward.grad_input",
            None,
            Launch("glu", "numel(grad_output)"),
            source=_BACKWARD,
            dtypes=FLOATS,
            family="pointwise",
            operands="self grad_output",
            results=Result("grad_input", sizes="sizes(self)"),
            let=let,
            numbers=numbers,
            conditions=[*even, "sizes(grad_output) == set(sizes(self), d, half)"],
        ),
        templated(
            "glu_jvp glu_jvp.out",
            None,
            Launch("glu", "numel(glu)"),
            source=_JVP,
            dtypes=FLOATS,
            family="pointwise",
            operands="glu x dx",
            results=Result("out", like="glu"),
            let=let_x,
            numbers=numbers_x,
            conditions=[
                *even_x,
                "sizes(glu) == set(sizes(x), d, half)",
                "sizes(dx) == sizes(x)",
            ],
        ),
        templated(
            "glu_backward_jvp glu_backward_jvp.out",
            None,
            Launch("glu", "numel(dgrad_glu)"),
            source=_BACKWARD_JVP,
            dtypes=FLOATS,
            family="pointwise",
            operands="x grad_x dx dgrad_glu",
            results=Result("out", sizes="sizes(x)"),
            let=let_x,
            numbers=numbers_x,
            conditions=[
                *even_x,
                "sizes(grad_glu) == set(sizes(x), d, half)",
                "sizes(dgrad_glu) == sizes(grad_glu)",
                "sizes(grad_x) == sizes(x) && sizes(dx) == sizes(x)",
            ],
        ),
    ]
