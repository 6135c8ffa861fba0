"""Kernels of `flex_attention`: blockwise, with `score_mod` and `mask_mod` as part of their text.

A call becomes one operator that carries the texts, so that code from a cache is whole in itself.
"""

from __future__ import annotations

import hashlib
import math
import operator
import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch._dynamo.utils import counters
from torch._higher_order_ops.flex_attention import _permute_strides
from torch._inductor.lowering import make_fallback

from torch_outboard.dispatch.user_kernels import kernel
from torch_outboard.inductor.lowerings.score_texts import (
    INTEGER,
    TRUTH,
    VALUE,
    Buffer,
    NoTextError,
    Number,
    ScoreText,
)
from torch_outboard.ops.layers.attention import DELTA_GROUPS, LARGEST_HEAD, rows_of_groups
from torch_outboard.ops.row import template
from torch_outboard.ops.template import Launch, Result
from torch_outboard.state import state

higher_order = torch.ops.higher_order
_LOCK = threading.Lock()
_LIBRARY = torch.library.Library("outboard_attention", "DEF")
_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
_OTHERS = "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool"
_TILE = 64  # keys, as in kernels/layers/attention_tiles.cl
# Below, scores stay in caches, and operators on all of them are faster: see
# benchmarks/flex_attention.py.
DENSE_BYTES = 64 << 20
# Positions in the description of a mask.
_KEYS_OF_QUERIES, _QUERIES_OF_KEYS = slice(2, 6), slice(6, 10)

_MASK = "Tensor counts, Tensor indices, Tensor? full_counts, Tensor? full_indices"
_MASK_OF_KEYS = "Tensor q_counts, Tensor q_indices, Tensor? full_q_counts, Tensor? full_q_indices"
_SIZES = "float scale, int query_block, int key_block"
_FORWARD = f"Tensor query, Tensor key, Tensor value, {_MASK}"
_BACKWARD = (
    "Tensor query, Tensor key, Tensor value, Tensor out, Tensor logsumexp, Tensor grad_out, "
    f"Tensor? grad_logsumexp, {_MASK}, {_MASK_OF_KEYS}"
)


def define() -> None:
    """Defines the operators that calls become."""
    for name, parameters, function, shape in (
        ("forward", _FORWARD, _forward, _shape_of_forward),
        ("backward", _BACKWARD, _backward, _shape_of_backward),
    ):
        _LIBRARY.define(
            f"{name}({parameters}, Tensor[] others, str text, {_SIZES}) -> (Tensor, Tensor, Tensor)"
        )
        _LIBRARY.impl(name, function, "PrivateUse1")
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


def _forward(*arguments: Any) -> tuple[torch.Tensor, ...]:
    return _call("forward", arguments, 7)


def _backward(*arguments: Any) -> tuple[torch.Tensor, ...]:
    return _call("backward", arguments, 15)


def _call(name: str, arguments: Sequence[Any], others: int) -> tuple[torch.Tensor, ...]:
    """Calls the kernel of a text; elements of a row have to follow each other.

    `others`: the place of the list of tensors from outside.
    """
    rows = [x if x.stride(-1) == 1 else x.contiguous() for x in arguments[:3]]
    given, text, *sizes = arguments[others:]
    with _LOCK:
        kernel_of_text = _kernel(name, text, len(given))
    results = list(kernel_of_text(*rows, *arguments[3:others], *given, *sizes))
    for place, like in enumerate(arguments[: 1 if name == "forward" else 3]):
        strides = _strides_like(like.shape, like.stride())
        if results[place].stride() != strides:
            laid = results[place].new_empty_strided(like.shape, strides)
            results[place] = laid.copy_(results[place])
    return tuple(results)


@lru_cache
def _strides_like(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """As compiled graphs expect results to lie."""
    return _permute_strides(torch.empty(sizes, device="meta"), tuple(strides)).stride()


@cache
def _kernel(name: str, text: str, others: int) -> Callable[..., tuple[torch.Tensor, ...]]:
    """An operator for kernels with a text, which is defined by its first call."""
    digest = hashlib.sha256(f"{name} {others} {text}".encode()).hexdigest()[:16]
    unique = f"{name}_{digest}"
    parameters = _FORWARD if name == "forward" else _BACKWARD
    buffers = "".join(f", Tensor other{place}" for place in range(others))
    _LIBRARY.define(f"{unique}({parameters}{buffers}, {_SIZES}) -> (Tensor, Tensor, Tensor)")
    kernel(f"outboard_attention::{unique}", **_description(name, text, parameters, others))
    overload: Callable[..., Any] = getattr(torch.ops.outboard_attention, unique).default
    return overload


def _tiles(operand: str, block: str, rows: str) -> str:
    """How many tiles of `rows` rows the blocks of an operand have, in all its heads."""
    length = f"size({operand}, 2)"
    in_block = f"((min({block}, {length}) + {rows} - 1) // {rows})"
    blocks = f"(({length} + ({block}) - 1) // ({block}))"
    return f"size({operand}, 0) * size({operand}, 1) * {blocks} * {in_block}"


def _description(name: str, text: str, parameters: str, others: int) -> dict[str, Any]:
    """The row of a kernel, as torch_outboard.kernel takes it."""
    declared = [parameter.split() for parameter in parameters.split(", ")]
    operands = [word + ("?" if kind.endswith("?") else "") for kind, word in declared]
    buffers = [f"other{place}" for place in range(others)]
    masks = [word for _, word in declared if word.endswith(("counts", "indices"))]
    rows = "size(query, 2)"
    common: dict[str, Any] = {
        "dtypes": _DTYPES,
        "operands": " ".join([*operands, *buffers]),
        "accepts": {
            **dict.fromkeys(masks, "int32 int64"), **dict.fromkeys(buffers, _OTHERS),
        },
        "numbers": {
            "heads": "size(query, 1)",
            "shared": "size(query, 1) // size(key, 1)",
            "queries": rows,
            "keys": "size(key, 2)",
            "mask_batches": "size(counts, 0)",
            "mask_heads": "size(counts, 1)",
            "query_blocks": "size(counts, 2)",
            "key_blocks": "size(indices, 3)",
            "query_block": "query_block",
            "key_block": "key_block",
        },
        "reals": {"scale_value": "scale"},
        "constants": {"HEAD": "size(query, 3)", "ROWS": "rows"},
        "let": {
            # A tile stays within a block of queries, or of keys; on a GPU blocks are of any size.
            "rows": f"group_lanes > 1 ? ({rows_of_groups(8 if name == 'forward' else 4)})"
            f" : query_block >= {rows} || query_block % {_TILE} == 0 ? {_TILE}"
            " : query_block % 16 == 0 ? 16 : 4",
            "blocks": _tiles("query", "group_lanes > 1 ? query_block : rows", "rows"),
            "tiles": _tiles(
                "key", f"group_lanes > 1 ? key_block : {_TILE}",
                f"(group_lanes > 1 ? rows : {_TILE})",
            ),
        },
        "vectors": True,
        "reports": "IndexError",
        "family": "attention",
    }  # fmt: skip
    head = template("attention_tiles") + text + template("flex_attention")
    if name == "forward":
        return {
            **common,
            "source": head + template("flex_attention_forward"),
            "launches": Launch("attend", "blocks", groups=True),
            "strided": " ".join(["query key value out", *buffers]),
            "results": [
                Result("out", like="query"),
                Result("logsumexp", sizes="sizes(query)[:3]", dtype="float32"),
                Result("max_scores", sizes="sizes(query)[:3]", dtype="float32"),
            ],
        }
    gradients = [f"grad_{x}" for x in ("query", "key", "value")]
    common["numbers"] |= {
        "key_lists": "size(q_counts, 2)",
        "query_lists": "size(q_indices, 3)",
        "all_rows": "numel(logsumexp)",
    }
    common["accepts"] |= dict.fromkeys(("logsumexp", "grad_logsumexp"), "float32")
    return {
        **common,
        "source": head + template("attention_delta") + template("flex_attention_backward"),
        "launches": [
            Launch("delta_of_rows", DELTA_GROUPS, groups=True),
            Launch("differentiate_keys", "tiles", groups=True),
            Launch("differentiate_queries", "blocks", groups=True),
        ],
        "strided": " ".join(["query key value out", *gradients, *buffers]),
        "results": [
            Result(gradient, sizes=f"sizes({gradient[5:]})", like=gradient[5:])
            for gradient in gradients
        ],
        "temporaries": [Result("delta", sizes="numel(logsumexp)", dtype="float32")],
    }


# ---- Calls in graphs


def replace(graph: torch.fx.Graph, node: torch.fx.Node, module_of: Callable[[Any], Any]) -> bool:
    """Puts an operator in the place of a call; False if there is none for it.

    `module_of` gives the graph of a function that the call is given.
    """
    try:
        forward = node.target is higher_order.flex_attention
        arguments = _arguments_of(node, module_of, forward)
    except NoTextError:
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
            raise NoTextError("a gradient of logsumexp alone")
        used = [u for u in node.users if u.target is not operator.getitem or u.args[1] == 3]
        if any(user.target is not operator.getitem or user.users for user in used):
            raise NoTextError("gradients of tensors that score_mod takes from outside")
    _check(query.meta["val"], key.meta["val"], value.meta["val"], mask, scale)
    of_score, of_mask = (list(x) for x in (*buffers, (), ())[:2])
    others = [x for x in (*of_score, *of_mask) if isinstance(x, torch.fx.Node)]
    text = _texts(
        module_of(score), module_of(mask[-1]), derivative and module_of(derivative),
        _inputs(of_score, others), _inputs(of_mask, others),
    )  # fmt: skip
    lists = list(mask[_KEYS_OF_QUERIES])
    if not forward:
        lists += mask[_QUERIES_OF_KEYS]
    return [*tensors, *lists, others, text, scale, *mask[-3:-1]]


def _check(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: Sequence[Any], scale: Any
) -> None:
    """Raises NoTextError for what kernels cannot do; open sizes get guards."""
    query_block, key_block = mask[-3:-1]
    same = query.dtype == key.dtype == value.dtype and key.shape == value.shape
    if not same or query.dtype not in _DTYPES or query.shape[0] != key.shape[0]:
        raise NoTextError("dtypes and sizes that differ")
    if not isinstance(scale, float) or not all(isinstance(x, int) for x in mask[-3:-1]):
        raise NoTextError("an open scale, or blocks of open sizes")
    if query.shape[3] != key.shape[3] or not 0 < query.shape[3] <= LARGEST_HEAD:
        raise NoTextError("heads of this size")
    for block, multiple, length in (
        (query_block, 4, query.shape[2]),
        (key_block, _TILE, key.shape[2]),
    ):
        if block % multiple and not (isinstance(length, int) and length <= block):
            raise NoTextError(f"blocks of {block} rows")
    if 0 in (*query.shape[:3], key.shape[2]):
        raise NoTextError("no rows")
    scores = [*query.shape[:3], key.shape[2]]
    if not all(isinstance(size, int) for size in scores):
        return
    if query_block >= scores[2] and key_block >= scores[3] and 4 * math.prod(scores) < DENSE_BYTES:
        raise NoTextError("a faster way to few scores, of which none is left out")


def _inputs(buffers: Sequence[Any], others: Sequence[torch.fx.Node]) -> list[Number | Buffer]:
    found: list[Number | Buffer] = []
    for buffer in buffers:
        if isinstance(buffer, torch.fx.Node) and isinstance(buffer.meta["val"], torch.Tensor):
            found.append(Buffer(f"other{others.index(buffer)}", buffer.meta["val"]))
        elif isinstance(buffer, (bool, int)):
            found.append(Number(f"({int(buffer)}L)", INTEGER))
        else:
            raise NoTextError("a number that is not known")
    return found


def _texts(
    score: torch.fx.GraphModule,
    mask: torch.fx.GraphModule,
    derivative: torch.fx.GraphModule | None,
    score_buffers: list[Number | Buffer],
    mask_buffers: list[Number | Buffer],
) -> str:
    """The macros that flex_attention.cl asks for."""
    place = [Number(f"((long)({name}))", INTEGER) for name in "bhmn"]
    given = Number("((V)(s))", VALUE)
    definitions = [
        _macro(
            "SCORE", "to, s, b, h, m, n", ScoreText(score, [given, *place, *score_buffers]), VALUE
        ),
        _macro("VISIBLE", "to, b, h, m, n", ScoreText(mask, [*place, *mask_buffers]), TRUTH),
    ]
    if derivative is not None:
        inputs = [given, *place, Number("((V)(g))", VALUE), *score_buffers]
        text = ScoreText(derivative, inputs)
        definitions.append(_macro("SCORE_GRADIENT", "to, s, b, h, m, n, g", text, VALUE))
    return "".join(definitions)


def _macro(name: str, parameters: str, text: ScoreText, kind: str) -> str:
    result = text.results[0]
    if result is None:
        raise NoTextError("a function without a result")
    return f"#define {name}({parameters}) {{ {text.statements} to = {result.as_kind(kind)}; }}\n"
