"""`max-autotune`: products of matrices with what follows them, in the kernel that stores results.

Products and their epilogues become one operator, if measuring finds that faster than a product and
a kernel for the rest. Sizes may be open: they are measured as they were when the graph was traced.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.lowering import make_fallback
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_outboard import _C
from torch_outboard.inductor.lowerings import epilogues
from torch_outboard.inductor.lowerings.epilogue_texts import FLOATS
from torch_outboard.inductor.lowerings.epilogue_writer import Node, same, same_sizes, value_of
from torch_outboard.ops.products.texts import group_text
from torch_outboard.ops.row import template
from torch_outboard.state import state

aten = torch.ops.aten
_LIBRARY = torch.library.Library("outboard_products", "DEF")
# As in csrc/device_kernels/product/matrix_product.cpp: below, products are not packed.
_LEAST_WORK, _LEAST_SIZE = 32768, 4


def define() -> None:
    """Defines the operator that products become."""
    _LIBRARY.define(f"product(Tensor left, Tensor right, {epilogues.SCHEMA}) -> Tensor[]")
    _LIBRARY.impl("product", _product, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "outboard_products::product",
        lambda left, right, *epilogue: [
            left.new_empty(left.shape[0], right.shape[1], dtype=dtype)
            for dtype in epilogues.dtypes(epilogue[-1])
        ],
        lib=_LIBRARY,
    )
    make_fallback(torch.ops.outboard_products.product.default, warn=False)


@cache
def _kernel() -> _C.FusedProduct:
    _C.load_device_kernels()
    return _C.FusedProduct(template("matrix_product"), group_text())


def _product(
    left: torch.Tensor, right: torch.Tensor, operands: list[torch.Tensor], of_row: str,
    row_values: int, body: str, places: str, results: str,
) -> list[torch.Tensor]:  # fmt: skip
    texts = epilogues.texts(of_row, row_values, body, places)
    return _kernel()(left, right, texts, operands, epilogues.dtypes(results))


class _Places:
    """Of a matrix: its elements row by row, whatever views make of the rows."""

    def __init__(self, product: Node) -> None:
        self.rows, self.columns = value_of(product).shape

    def follows(self, value: torch.Tensor) -> bool:
        count = self.rows * self.columns
        return (
            value.dim() > 0 and same(value.shape[-1], self.columns) and same(value.numel(), count)
        )

    def lies_alike(self, value: torch.Tensor) -> bool:
        wanted: Any = 1
        for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
            if not same(size, 1) and not same(stride, wanted):
                return False
            wanted = wanted * size
        return True

    def of(self, value: torch.Tensor, user: torch.Tensor) -> str:
        if same_sizes(value.shape, user.shape):
            return "e"
        if same(value.numel(), 1):
            return "r"
        if same(value.numel(), self.columns) and same(value.shape[-1], self.columns):
            return "c"
        rows = value.dim() == user.dim() and same_sizes(value.shape[:-1], user.shape[:-1])
        return "r" if rows and same(value.shape[-1], 1) else ""

    def length(self, place: str) -> Any:
        return self.rows if place == "r" else self.columns


def fuse(graph: torch.fx.Graph) -> bool:
    """Gives products their epilogues where that is faster; whether there was one."""
    found = False
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in (aten.mm.default, aten.addmm.default):
            continue
        if not _suits(node):
            continue
        added = node.args[0] if node.target is aten.addmm.default else None
        epilogue = epilogues.find(node, _Places(node), added)
        if epilogue is not None and _pays(epilogue, added is not None):
            epilogues.replace(
                epilogue, torch.ops.outboard_products.product.default, _matrices(node)
            )
            counters[state.name]["fused_products"] += 1
            found = True
    return found


def _matrices(product: Node) -> tuple[Any, Any]:
    return product.args[-2], product.args[-1]


def _suits(product: Node) -> bool:
    """Whether the kit's own kernel takes a product, packed into tiles."""
    if product.kwargs or len(product.args) not in (2, 3):
        return False
    left, right = map(value_of, _matrices(product))
    value = value_of(product)
    sizes = epilogues.hints((*left.shape, value.shape[1]))
    if sizes is None:
        return False
    work = sizes[0] * sizes[1] * sizes[2]
    return (
        value.device.type == state.name
        and value.dtype in FLOATS
        and left.dtype == right.dtype == value.dtype
        and work >= _LEAST_WORK
        and min(sizes) >= _LEAST_SIZE
    )


# ---- Measuring


def _pays(epilogue: epilogues.Epilogue, adds: bool) -> bool:
    """Whether one kernel is faster; what follows the product costs the same in both ways."""
    values = [value_of(node) for node in _matrices(epilogue.root)]
    return _measured(
        values[0].device,
        values[0].dtype,
        tuple((epilogues.hints(value.shape), epilogues.hints(value.stride())) for value in values),
        adds,
        epilogue.costs,
    )


@cache
def _measured(
    device: torch.device, dtype: torch.dtype, layouts: Sequence[Any], adds: bool,
    costs: epilogues.Costs,
) -> bool:  # fmt: skip
    with unset_fake_temporarily(), torch.no_grad():
        left, right = (
            torch.empty_strided(sizes, strides, dtype=dtype, device=device).fill_(0.5)
            for sizes, strides in layouts
        )
        added = torch.ones(right.shape[1], dtype=dtype, device=device) if adds else None
        other = torch.ones(left.shape[0], right.shape[1], dtype=dtype, device=device)
        stand_in = epilogues.StandIn(costs, other, added, "c")

        def separate() -> None:
            product = torch.mm(left, right) if added is None else torch.addmm(added, left, right)
            stand_in.follow(product)

        def together() -> None:
            torch.ops.outboard_products.product(left, right, *stand_in.arguments)

        return epilogues.is_faster(together, separate)
