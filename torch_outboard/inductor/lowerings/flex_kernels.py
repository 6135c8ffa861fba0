"""Blockwise kernels of `flex_attention`, with `score_mod` and `mask_mod` in their source.

A call becomes a call of one operator with this source as an argument, so that cached code is
self-contained.
"""

from __future__ import annotations

import hashlib
import math
import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._higher_order_ops.flex_attention import _permute_strides
from torch._inductor.lowering import make_fallback

from torch_outboard.dispatch.user_kernels import kernel
from torch_outboard.inductor.lowerings.score_functions import lowered
from torch_outboard.inductor.opencl.program import checked_index, functions_called_by
from torch_outboard.ops.definition import BOOL, FLOATS, INTEGERS, kernel_source
from torch_outboard.ops.layers.attention import LARGEST_HEAD, delta_groups, rows_of_groups
from torch_outboard.ops.symbolic import (
    Symbol,
    SymFloat,
    SymInt,
    SymTensor,
    ceil_div,
    minimum,
    where,
)
from torch_outboard.ops.template import Plan
from torch_outboard.state import state

higher_order = torch.ops.higher_order
_LOCK = threading.Lock()
_LIBRARY = torch.library.Library("outboard_attention", "DEF")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_OTHERS = (*FLOATS, *INTEGERS, *BOOL)
_INDICES = (torch.int32, torch.int64)
_TILE = 64  # keys per tile, equal to KEYS of attention_tiles.cl
# Bytes of scores. Fewer stay in caches, and the dense formula is faster: see
# benchmarks/flex_attention.py.
DENSE_BYTES = 64 << 20
# Positions in the description of a mask.
_KEYS_OF_QUERIES, _QUERIES_OF_KEYS = slice(2, 6), slice(6, 10)

_MASK = "Tensor counts, Tensor indices, Tensor? full_counts, Tensor? full_indices"
_MASK_OF_KEYS = "Tensor q_counts, Tensor q_indices, Tensor? full_q_counts, Tensor? full_q_indices"
_SIZES = "float scale, int query_block, int key_block"
_PARAMETERS = {
    "forward": f"Tensor query, Tensor key, Tensor value, {_MASK}",
    "backward": "Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, "
    f"Tensor grad_out, Tensor? grad_logsumexp, {_MASK}, {_MASK_OF_KEYS}",
}


def define() -> None:
    """Defines the operators that replace calls of flex_attention."""
    for name, shape in (("forward", _shape_of_forward), ("backward", _shape_of_backward)):
        arguments = f"{_PARAMETERS[name]}, Tensor[] others, str macros, {_SIZES}"
        _LIBRARY.define(f"{name}({arguments}) -> (Tensor, Tensor, Tensor)")
        _LIBRARY.impl(name, partial(_call, name), "PrivateUse1")
        torch.library.register_fake(f"outboard_attention::{name}", shape, lib=_LIBRARY)
        make_fallback(getattr(torch.ops.outboard_attention, name).default, warn=False)


# ---- The operators


def _shape_of_forward(query: torch.Tensor, *_: Any) -> tuple[torch.Tensor, ...]:
    rows = query.shape[:3]
    return (
        _permute_strides(query.new_empty(query.shape), query.stride()),
        query.new_empty(rows, dtype=torch.float32),
        query.new_empty(rows, dtype=torch.float32),
    )


def _shape_of_backward(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any
) -> tuple[torch.Tensor, ...]:
    return tuple(_permute_strides(x.new_empty(x.shape), x.stride()) for x in (query, key, value))


def _call(name: str, *arguments: Any) -> tuple[torch.Tensor, ...]:
    """Calls the kernel with the given source; makes the elements of a row contiguous first."""
    rows = [x if x.stride(-1) == 1 else x.contiguous() for x in arguments[:3]]
    *others, given, macros, scale, query_block, key_block = arguments[3:]
    with _LOCK:
        kernel_of_macros = _kernel(name, macros, len(given))
    results = list(kernel_of_macros(*rows, *others, *given, scale, query_block, key_block))
    for index, like in enumerate(arguments[: 1 if name == "forward" else 3]):
        strides = _strides_like(like.shape, like.stride())
        if results[index].stride() != strides:
            laid = results[index].new_empty_strided(like.shape, strides)
            results[index] = laid.copy_(results[index])
    return tuple(results)


@lru_cache
def _strides_like(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of results that compiled graphs expect."""
    return _permute_strides(torch.empty(sizes, device="meta"), tuple(strides)).stride()


@cache
def _kernel(name: str, macros: str, others: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """An operator for kernels with the given source; the first call defines it."""
    digest = hashlib.sha256(f"{name} {others} {macros}".encode()).hexdigest()[:16]
    unique = f"{name}_{digest}"
    buffers = [f"other{index}" for index in range(others)]
    declared = "".join(f", Tensor {buffer}" for buffer in buffers)
    _LIBRARY.define(
        f"{unique}({_PARAMETERS[name]}{declared}, {_SIZES}) -> (Tensor, Tensor, Tensor)"
    )
    define_kernels = _define_forward if name == "forward" else _define_backward
    define_kernels(f"outboard_attention::{unique}", macros, buffers)
    overload: Callable[..., Any] = getattr(torch.ops.outboard_attention, unique).default
    return overload


# ---- The kernels of an operator


@dataclass(frozen=True)
class _Call:
    """Sizes of the blocks and tiles of a call.

    A tile of rows stays within a block; on a GPU blocks may have any size.
    """

    query: SymTensor
    key: SymTensor
    query_block: SymInt
    key_block: SymInt
    tall: int  # rows per work-item of a GPU

    def rows(self, plan: Plan) -> SymInt:
        """Rows of a tile of queries."""
        block = self.query_block
        whole = (block >= self.query.size(2)) | (block % _TILE == 0)
        on_processor = where(whole, _TILE, where(block % 16 == 0, 16, 4))
        by_items = rows_of_groups(plan, self.query, self.tall)
        return where(plan.on_processor, on_processor, by_items)

    def query_tiles(self, plan: Plan) -> SymInt:
        rows = self.rows(plan)
        return _tiles(self.query, where(plan.on_processor, rows, self.query_block), rows)

    def key_tiles(self, plan: Plan) -> SymInt:
        block = where(plan.on_processor, _TILE, self.key_block)
        return _tiles(self.key, block, where(plan.on_processor, _TILE, self.rows(plan)))


def _tiles(operand: SymTensor, block: SymInt, rows: SymInt) -> SymInt:
    """Number of tiles of `rows` rows in the blocks of an operand, over all heads."""
    length = operand.size(2)
    heads = operand.size(0) * operand.size(1)
    return heads * ceil_div(length, block) * ceil_div(minimum(block, length), rows)


def _add_buffers(plan: Plan, rest: Mapping[str, Symbol], buffers: Sequence[str]) -> None:
    for buffer in buffers:
        tensor = rest[buffer]
        assert isinstance(tensor, SymTensor)
        plan.operand(buffer, tensor)


def _pass_values(
    plan: Plan, call: _Call, counts: SymTensor, indices: SymTensor, scale: SymFloat
) -> None:
    """Passes the parameters and constants that forward and backward share."""
    query, key = call.query, call.key
    plan.parameters(
        heads=query.size(1),
        shared=query.size(1) // key.size(1),
        queries=query.size(2),
        keys=key.size(2),
        mask_batches=counts.size(0),
        mask_heads=counts.size(1),
        query_blocks=counts.size(2),
        key_blocks=indices.size(3),
        query_block=call.query_block,
        key_block=call.key_block,
        scale_value=scale,
    )
    plan.constants(HEAD=query.size(3), ROWS=call.rows(plan))


def _source(macros: str) -> str:
    """Source of the kernels for the given functions."""
    parts = [kernel_source("attention_tiles"), macros, kernel_source("flex_attention")]
    return "".join([*parts, kernel_source("attention")])


def _define_forward(operator: str, macros: str, buffers: Sequence[str]) -> None:
    mask = ("counts", "indices", "full_counts", "full_indices")

    @kernel(
        operator,
        source=_source(macros),
        dtypes=_DTYPES,
        accepts=dict.fromkeys(mask, _INDICES) | dict.fromkeys(buffers, _OTHERS),
        strided=("query", "key", "value", "out", *buffers),
        vectors=True,
        reports=IndexError,
        family="attention",
    )
    def forward(
        plan: Plan,
        query: SymTensor,
        key: SymTensor,
        value: SymTensor,
        counts: SymTensor,
        indices: SymTensor,
        full_counts: SymTensor,
        full_indices: SymTensor,
        scale: SymFloat,
        query_block: SymInt,
        key_block: SymInt,
        **rest: Symbol,
    ) -> None:
        _add_buffers(plan, rest, buffers)
        plan.result("out", like=query)
        plan.result("logsumexp", query.shape[:3], torch.float32)
        plan.result("max_scores", query.shape[:3], torch.float32)
        call = _Call(query, key, query_block, key_block, tall=8)
        _pass_values(plan, call, counts, indices, scale)
        plan.launch("attend", groups=call.query_tiles(plan))


def _define_backward(operator: str, macros: str, buffers: Sequence[str]) -> None:
    mask = (
        "counts", "indices", "full_counts", "full_indices",
        "q_counts", "q_indices", "full_q_counts", "full_q_indices",
    )  # fmt: skip
    gradients = ("grad_query", "grad_key", "grad_value")
    reals = dict.fromkeys(("logsumexp", "grad_logsumexp"), (torch.float32,))

    @kernel(
        operator,
        source=_source(macros),
        dtypes=_DTYPES,
        accepts=dict.fromkeys(mask, _INDICES) | dict.fromkeys(buffers, _OTHERS) | reals,
        strided=("query", "key", "value", "out", *gradients, *buffers),
        vectors=True,
        reports=IndexError,
        family="attention",
    )
    def backward(
        plan: Plan,
        query: SymTensor,
        key: SymTensor,
        value: SymTensor,
        out: SymTensor,
        logsumexp: SymTensor,
        grad_out: SymTensor,
        grad_logsumexp: SymTensor,
        counts: SymTensor,
        indices: SymTensor,
        full_counts: SymTensor,
        full_indices: SymTensor,
        q_counts: SymTensor,
        q_indices: SymTensor,
        full_q_counts: SymTensor,
        full_q_indices: SymTensor,
        scale: SymFloat,
        query_block: SymInt,
        key_block: SymInt,
        **rest: Symbol,
    ) -> None:
        _add_buffers(plan, rest, buffers)
        for name, operand in zip(gradients, (query, key, value), strict=True):
            plan.result(name, operand.shape, like=operand)
        plan.temporary("delta", logsumexp.numel(), torch.float32)
        call = _Call(query, key, query_block, key_block, tall=4)
        _pass_values(plan, call, counts, indices, scale)
        plan.parameters(
            key_lists=q_counts.size(2), query_lists=q_indices.size(3), all_rows=logsumexp.numel()
        )
        plan.launch("delta_of_rows", groups=delta_groups(plan, logsumexp, call.rows(plan)))
        plan.launch("differentiate_keys", groups=call.key_tiles(plan))
        plan.launch("differentiate_queries", groups=call.query_tiles(plan))


# ---- Calls in graphs


def replace(graph: torch.fx.Graph, node: torch.fx.Node, module_of: Callable[[Any], Any]) -> bool:
    """Replaces a call by an operator; False if no operator supports it.

    `module_of` returns the graph of a function argument of the call.
    """
    try:
        forward = node.target is higher_order.flex_attention
        arguments = _arguments_of(node, module_of, forward)
    except NotImplementedError:
        counters[state.name]["dense_attention"] += 1
        return False
    target = (
        torch.ops.outboard_attention.forward if forward else torch.ops.outboard_attention.backward
    )
    with graph.inserting_before(node):
        call = graph.call_function(target.default, tuple(arguments))
    call.meta.update(node.meta)
    call.meta["val"] = tuple(node.meta["val"][:3])
    for user in list(node.users):
        if user.args[1] == 3:
            graph.erase_node(user)
    node.replace_all_uses_with(call)
    graph.erase_node(node)
    counters[state.name]["flex_attention_kernels"] += 1
    return True


def _arguments_of(node: torch.fx.Node, module_of: Callable[[Any], Any], forward: bool) -> list[Any]:
    given: list[Any] = list(node.args)
    if forward:
        query, key, value, score, mask, scale, _, *buffers = given
        tensors, derivative = [query, key, value], None
    else:
        *tensors, score, derivative, mask, scale, _, score_buffers, mask_buffers = given
        buffers = [score_buffers, mask_buffers]
        query, key, value = tensors[:3]
        if tensors[5] is None:
            raise NotImplementedError("a gradient of logsumexp alone")
        used = [u for u in node.users if u.target is not operator.getitem or u.args[1] == 3]
        if any(user.target is not operator.getitem or user.users for user in used):
            raise NotImplementedError("gradients of tensors that score_mod takes from outside")
    _check(query.meta["val"], key.meta["val"], value.meta["val"], mask, scale)
    of_score, of_mask = (list(x) for x in (*buffers, (), ())[:2])
    others = [x for x in (*of_score, *of_mask) if isinstance(x, torch.fx.Node)]
    macros = _macros(
        module_of(score), module_of(mask[-1]), derivative and module_of(derivative),
        _inputs(of_score, others), _inputs(of_mask, others),
    )  # fmt: skip
    lists = list(mask[_KEYS_OF_QUERIES])
    if not forward:
        lists += mask[_QUERIES_OF_KEYS]
    return [*tensors, *lists, others, macros, scale, *mask[-3:-1]]


def _check(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Sequence[Any], scale: Any
) -> None:
    """Raises NotImplementedError for unsupported calls; dynamic shapes get guards."""
    query_block, key_block = mask[-3:-1]
    same = query.dtype == key.dtype == value.dtype and key.shape == value.shape
    if not same or query.dtype not in _DTYPES or query.shape[0] != key.shape[0]:
        raise NotImplementedError("dtypes and sizes that differ")
    if not isinstance(scale, float) or not all(isinstance(x, int) for x in mask[-3:-1]):
        raise NotImplementedError("a dynamic scale, or blocks of dynamic sizes")
    if query.shape[3] != key.shape[3] or not 0 < query.shape[3] <= LARGEST_HEAD:
        raise NotImplementedError("heads of this size")
    for block, multiple, length in (
        (query_block, 4, query.shape[2]),
        (key_block, _TILE, key.shape[2]),
    ):
        if block % multiple and not (isinstance(length, int) and length <= block):
            raise NotImplementedError(f"blocks of {block} rows")
    if 0 in (*query.shape[:3], key.shape[2]):
        raise NotImplementedError("no rows")
    scores = [*query.shape[:3], key.shape[2]]
    if not all(isinstance(size, int) for size in scores):
        return
    if query_block >= scores[2] and key_block >= scores[3] and 4 * math.prod(scores) < DENSE_BYTES:
        raise NotImplementedError("few scores, none masked in blocks: dense attention is faster")


def _inputs(buffers: Sequence[Any], others: Sequence[torch.fx.Node]) -> list[Any]:
    found: list[Any] = []
    for buffer in buffers:
        if isinstance(buffer, torch.fx.Node) and isinstance(buffer.meta["val"], torch.Tensor):
            found.append((f"other{others.index(buffer)}", buffer.meta["val"]))
        elif isinstance(buffer, (bool, int)):
            found.append(buffer)
        else:
            raise NotImplementedError("a number that is not known")
    return found


def _macros(
    score: torch.fx.GraphModule,
    mask: torch.fx.GraphModule,
    derivative: torch.fx.GraphModule | None,
    score_buffers: list[Any],
    mask_buffers: list[Any],
) -> str:
    """The macros that flex_attention.cl needs, after the functions that they call."""
    real = torch.float32
    macros = [
        _macro("SCORE", "s b h m n", score, score_buffers, real),
        _macro("VISIBLE", "b h m n", mask, mask_buffers, torch.bool),
    ]
    if derivative is not None:
        macros.append(_macro("SCORE_GRADIENT", "s b h m n g", derivative, score_buffers, real))
    checks = [checked_index(kind, 1) + "\n" for kind in ("int", "long")]
    functions = functions_called_by("".join(macros))
    return "".join(["#define ob_fault ob_report\n", *checks, functions, *macros])


def _macro(
    name: str, inputs: str, module: torch.fx.GraphModule, buffers: list[Any], dtype: torch.dtype
) -> str:
    scalars = [f"(({'float' if x in 'sg' else 'int'})({x}))" for x in inputs.split()]
    statements, result = lowered(module, scalars, buffers, dtype)
    parameters = ", ".join(["to", *inputs.split()])
    return f"#define {name}({parameters}) {{ {statements} to = {result}; }}\n"
