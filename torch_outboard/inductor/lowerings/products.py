"""`max-autotune`: products of matrices with what follows them, in the kernel that stores results.

A pass over graphs looks for products whose result is used by pointwise operators alone, such as
bias, GELU and a residual. They become one operator, if measuring finds that faster than a product
and a kernel for the rest. Sums are not rounded before what follows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.lowering import make_fallback
from torch._subclasses.fake_tensor import unset_fake_temporarily

from torch_outboard import _C
from torch_outboard.ops.functions.table import scalar_only
from torch_outboard.ops.row import template
from torch_outboard.state import state

aten, prims = torch.ops.aten, torch.ops.prims
_LIBRARY = torch.library.Library("outboard_products", "DEF")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# As in csrc/device_kernels/product/matrix_product.cpp: below, products are not packed.
_LEAST_WORK, _LEAST_SIZE = 32768, 4
_VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default, aten.expand.default)
_ROUNDS = 7
_WORTH = 0.97


def define() -> None:
    """Defines the operator that products become."""
    _LIBRARY.define(
        "fused(Tensor left, Tensor right, Tensor? added, Tensor? other, str body) -> Tensor"
    )
    _LIBRARY.impl("fused", _fused, "CompositeExplicitAutograd")
    torch.library.register_fake(
        "outboard_products::fused",
        lambda left, right, *_: left.new_empty(left.shape[0], right.shape[1]),
        lib=_LIBRARY,
    )
    make_fallback(torch.ops.outboard_products.fused.default, warn=False)


@cache
def _kernel(body: str) -> _C.FusedProduct:
    _C.load_device_kernels()
    return _C.FusedProduct(template("matrix_product"), body)


def _fused(
    left: torch.Tensor,
    right: torch.Tensor,
    added: torch.Tensor | None,
    other: torch.Tensor | None,
    body: str,
) -> torch.Tensor:
    return _kernel(body)(left, right, added, other)


# ---- Texts of what follows a product


def _call(name: str) -> Callable[..., str]:
    return lambda *values: f"ob_{name}({', '.join(values)})"


def _infix(operator: str) -> Callable[..., str]:
    return lambda x, y: f"({x} {operator} {y})"


_FUNCTIONS: dict[Any, Callable[..., str]] = {
    getattr(aten, name).default: _call(name)
    for name in (
        "abs", "cos", "erf", "exp", "expm1", "log", "log1p", "neg", "reciprocal", "relu", "rsqrt",
        "sigmoid", "sin", "sqrt", "tanh", "maximum", "minimum",
    )
}  # fmt: skip
for _name, _sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/")):
    for _overload in ("Tensor", "Scalar"):
        _FUNCTIONS[getattr(getattr(aten, _name), _overload)] = _infix(_sign)
_MASKS = {
    getattr(getattr(aten, name), overload): _infix(sign)
    for name, sign in (("gt", ">"), ("ge", ">="), ("lt", "<"), ("le", "<="))
    for overload in ("Tensor", "Scalar")
}


@dataclass
class _Chain:
    """Operators behind a product.

    Attributes:
        product: the product's node.
        added, other: operands besides the matrices.
        texts: of nodes, as values of the function that becomes the body.
        lines: of that function.
        end: the last node, and `complete_lines`, what it takes.
    """

    product: torch.fx.Node
    added: torch.fx.Node | None = None
    other: torch.fx.Node | None = None
    texts: dict[torch.fx.Node, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    end: torch.fx.Node | None = None
    complete_lines: int = 0
    complete_other: torch.fx.Node | None = None

    @property
    def body(self) -> str:
        assert self.end is not None
        return " ".join([*self.lines[: self.complete_lines], f"return {self.texts[self.end]};"])


def _value(node: Any) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _find(product: torch.fx.Node) -> _Chain | None:
    """What can be computed with a product; None if that is nothing."""
    chain = _Chain(product)
    if product.target is aten.addmm.default:
        if len(product.args) != 3 or product.kwargs:
            return None
        chain.added = product.args[0]
        if _value(chain.added).dtype != _value(product).dtype:
            return None
    chain.texts[product] = "a"
    node = product.next
    while node.op != "root":
        if any(x in chain.texts for x in node.all_input_nodes) and not _append(chain, node):
            break
        if node in chain.texts and chain.lines and _closed(chain, node):
            chain.end, chain.complete_lines = node, len(chain.lines)
            chain.complete_other = chain.other
        node = node.next
    return chain if chain.end is not None else None


def _closed(chain: _Chain, last: torch.fx.Node) -> bool:
    """Whether nobody but the nodes of a chain uses them, but for the last one."""
    return all(
        node is last or all(user in chain.texts for user in node.users) for node in chain.texts
    )


def _append(chain: _Chain, node: torch.fx.Node) -> bool:
    """Adds a node that takes results of a chain; False if it is of another kind."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return False
    sizes = _value(chain.product).shape
    if _value(node).numel() != _value(chain.product).numel() or _value(node).shape[-1] != sizes[-1]:
        return False
    if node.target in _VIEWS:
        chain.texts[node] = chain.texts[node.args[0]]  # type: ignore[index]
        return True
    is_mask = node.target in _MASKS
    if not is_mask and _value(node).dtype not in _DTYPES:
        return False
    if node.target is prims.convert_element_type.default:
        chain.texts[node] = chain.texts[node.args[0]]  # type: ignore[index]
        return _is_value(chain, node.args[0])
    operands = [_operand(chain, node, argument) for argument in node.args]
    if node.kwargs or any(operand is None for operand in operands):
        return False
    if node.target is aten.where.self:
        text = "{} ? {} : {}".format(*operands)
    elif node.target is aten.pow.Tensor_Scalar and node.args[1] in (2, 2.0, 3, 3.0):
        text = " * ".join(operands[:1] * int(node.args[1]))  # type: ignore[arg-type]
    elif node.target in _MASKS or node.target in _FUNCTIONS:
        text = (_MASKS.get(node.target) or _FUNCTIONS[node.target])(*operands)
    else:
        return False
    name = f"{'m' if is_mask else 't'}{len(chain.lines)}"
    chain.lines.append(f"const {'M' if is_mask else 'T'} {name} = {text};")
    chain.texts[node] = name
    return not any(f"ob_{one}(" in text for one in scalar_only())


def _is_value(chain: _Chain, node: Any) -> bool:
    return not chain.texts[node].startswith("m")


def _operand(chain: _Chain, user: torch.fx.Node, argument: Any) -> str | None:
    """The text of an argument; None if a kernel cannot have it."""
    if isinstance(argument, (bool, int, float)):
        return f"C({float(argument)!r}f)" if math.isfinite(argument) else None
    if not isinstance(argument, torch.fx.Node):
        return None
    if argument in chain.texts:
        return chain.texts[argument]
    value = argument.meta.get("val")
    known = _value(chain.product)
    if not isinstance(value, torch.Tensor) or value.dtype != known.dtype:
        return None
    is_row = value.dim() == 1 and value.shape[0] == known.shape[1]
    if value.device != known.device or not (is_row or value.shape == _value(user).shape):
        return None
    if chain.other not in (None, argument) or not _is_before(argument, chain.product):
        return None
    chain.other = argument
    return "b"


def _is_before(node: torch.fx.Node, other: torch.fx.Node) -> bool:
    """Whether a node is computed before another one."""
    return node < other


# ---- The pass


class FuseProducts(CustomGraphPass):
    """Replaces products and what follows them, where that is faster."""

    def __call__(self, graph: torch.fx.Graph) -> None:
        for node in list(graph.nodes):
            if node.op == "call_function" and node.target in (aten.mm.default, aten.addmm.default):
                chain = _find(node) if _suits(node) else None
                if chain is not None and _pays(chain):
                    _replace(graph, chain)
        graph.eliminate_dead_code()

    def uuid(self) -> Any:
        properties = _C.device_properties(_C.current_device())
        return (
            get_hash_for_files((str(Path(__file__)),)),
            f"{state.name} {properties.name} {properties.driver_version}",
        )


def _matrices(product: torch.fx.Node) -> tuple[Any, Any]:
    return product.args[-2], product.args[-1]


def _suits(product: torch.fx.Node) -> bool:
    """Whether the kit's own kernel takes a product, packed into tiles."""
    left, right = _matrices(product)
    value = _value(product)
    sizes = (*_value(left).shape, value.shape[1])
    if not all(isinstance(size, int) for size in sizes):
        return False
    work = sizes[0] * sizes[1] * sizes[2]
    return (
        value.device.type == state.name
        and value.dtype in _DTYPES
        and _value(left).dtype == _value(right).dtype == value.dtype
        and work >= _LEAST_WORK
        and min(sizes) >= _LEAST_SIZE
    )


def _replace(graph: torch.fx.Graph, chain: _Chain) -> None:
    product, end, other = chain.product, chain.end, chain.complete_other
    assert end is not None
    left, right = _matrices(product)
    with graph.inserting_after(end):
        result = graph.call_function(aten.view.default, (product, list(_value(end).shape)))
    with graph.inserting_before(product):
        if other is not None and _value(other).dim() > 2:
            sizes = list(_value(product).shape)
            flat = graph.call_function(aten.reshape.default, (other, sizes))
            flat.meta["val"] = _value(other).reshape(sizes)
            other = flat
        fused = graph.call_function(
            torch.ops.outboard_products.fused.default,
            (left, right, chain.added, other, chain.body),
        )
    fused.meta.update(end.meta)
    fused.meta["val"] = _value(product).new_empty(_value(product).shape, dtype=_value(end).dtype)
    result.meta.update(end.meta)
    end.replace_all_uses_with(result, delete_user_cb=lambda user: user is not result)
    result.args = (fused, result.args[1])
    counters[state.name]["fused_products"] += 1


# ---- Measuring


def _pays(chain: _Chain) -> bool:
    """Whether one kernel is faster; what follows the product costs the same in both ways."""
    assert chain.end is not None
    if _value(chain.end).dtype != _value(chain.product).dtype:
        return False
    values = [_value(node) for node in _matrices(chain.product)]
    return _measured(
        values[0].device,
        values[0].dtype,
        tuple((tuple(value.shape), tuple(value.stride())) for value in values),
        chain.added is not None,
    )


@cache
def _measured(device: torch.device, dtype: torch.dtype, layouts: Sequence[Any], adds: bool) -> bool:
    with unset_fake_temporarily(), torch.no_grad():
        left, right = (
            torch.empty_strided(sizes, strides, dtype=dtype, device=device).fill_(0.5)
            for sizes, strides in layouts
        )
        added = torch.ones(right.shape[1], dtype=dtype, device=device) if adds else None

        def separate() -> None:
            product = torch.mm(left, right) if added is None else torch.addmm(added, left, right)
            torch.relu_(product)

        def together() -> None:
            torch.ops.outboard_products.fused(left, right, added, None, "return ob_relu(a);")

        times: dict[Callable[[], None], list[float]] = {separate: [], together: []}
        for turn in range(_ROUNDS + 1):
            for function, measured in times.items():
                torch.accelerator.synchronize()
                start = time.perf_counter()
                function()
                torch.accelerator.synchronize()
                if turn > 0:  # the first one compiles
                    measured.append(time.perf_counter() - start)
        # A kernel of a graph has a little less to do before its launch than an eager operator.
        return min(times[together]) < _WORTH * min(times[separate])
