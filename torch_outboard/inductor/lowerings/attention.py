"""`flex_attention` and its derivative in compiled graphs: kernels, or operators on whole scores.

PyTorch's kernels for it need Triton. Before the graph is split into forward and backward, a call is
replaced by a call of our kernels (flex_kernels.py). A call that they do not support is replaced by
the dense formula: two matrix products, and between them operators that Inductor fuses, `score_mod`
and `mask_mod` included. The dense formula allocates the whole matrix of scores.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import sdpa_dense, sdpa_dense_backward
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torch_outboard.inductor.lowerings import flex_kernels
from torch_outboard.state import state

_DENSE: dict[Any, Callable[..., Any]] = {
    torch.ops.higher_order.flex_attention: sdpa_dense,
    torch.ops.higher_order.flex_attention_backward: sdpa_dense_backward,
}
_BUFFERS = 12  # index of the backward's argument with the captures of `score_mod`


def replace_attention(graph: torch.fx.Graph) -> None:
    """Replaces calls of flex_attention by kernels or by the dense formula."""
    assert graph.owning_module is not None
    module_of = partial(_value, graph.owning_module)
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _DENSE:
            device = node.args[0].meta["val"].device
            if device.type == state.name and not flex_kernels.replace(graph, node, module_of):
                _inline(graph, node)


def _inline(graph: torch.fx.Graph, node: torch.fx.Node) -> None:
    """Replaces a call by the operators of the dense formula."""
    module = graph.owning_module
    assert module is not None
    leaves, structure = pytree.tree_flatten(node.args)
    values = [_value(module, leaf) for leaf in leaves]
    traced_indices = [
        index for index, value in enumerate(values)
        if isinstance(leaves[index], torch.fx.Node) and not isinstance(value, torch.nn.Module)
    ]  # fmt: skip

    differentiated = _differentiated_buffers(node)

    def dense(*given: Any) -> Any:
        arguments = list(values)
        for index, value in zip(traced_indices, given, strict=True):
            arguments[index] = value
        nested = list(pytree.tree_unflatten(arguments, structure))
        for index in differentiated:
            buffers = list(nested[_BUFFERS])
            buffers[index] = buffers[index].detach().requires_grad_()
            nested[_BUFFERS] = tuple(buffers)
        return _DENSE[node.target](*nested)

    results: list[Any] = []

    def flat(*given: Any) -> Any:
        found, described = pytree.tree_flatten(dense(*given))
        results[:] = [described]
        return found

    mode = (
        torch._guards.detect_fake_mode([values[index] for index in traced_indices]) or V.fake_mode
    )
    with mode, torch.no_grad():
        traced = make_fx(flat, select_decomp_table())(*(values[index] for index in traced_indices))
    for one in traced.graph.nodes:
        if one.target is torch.ops.aten.copy_.default:  # only sets the strides of new memory
            one.target = torch.ops.aten.copy.default
    with graph.inserting_before(node):
        outputs = _copy(graph, node, traced, [leaves[index] for index in traced_indices])
    _replace(graph, node, pytree.tree_unflatten(outputs, results[0]))


def _differentiated_buffers(node: torch.fx.Node) -> list[int]:
    """Indices of the tensors captured by `score_mod` whose gradients the graph uses."""
    if node.target is not torch.ops.higher_order.flex_attention_backward:
        return []
    return [part.args[1] for user in node.users if user.args[1] == 3 for part in user.users]


def _value(module: torch.nn.Module, leaf: Any) -> Any:
    if not isinstance(leaf, torch.fx.Node):
        return leaf
    if leaf.op == "get_attr":
        attribute = operator.attrgetter(str(leaf.target))(module)
        if isinstance(attribute, torch.nn.Module):
            return attribute
    return leaf.meta["val"]


def _copy(
    graph: torch.fx.Graph, node: torch.fx.Node, traced: torch.fx.GraphModule, given: list[Any]
) -> list[Any]:
    """Copies the nodes of a traced function into the graph; returns its results."""
    for one in traced.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(str(one.target))(traced)
        one.target = f"_{node.name}_{str(one.target).replace('.', '_')}"
        setattr(graph.owning_module, one.target, value)
    inputs = traced.graph.find_nodes(op="placeholder")
    copies = dict(zip(inputs, given, strict=True))
    results: Any = graph.graph_copy(traced.graph, copies)
    for one in copies.keys() - set(inputs):
        for key in ("stack_trace", "partitioner_tag", "nn_module_stack"):
            if key in node.meta:
                copies[one].meta[key] = node.meta[key]
    return list(results)


def _replace(graph: torch.fx.Graph, node: torch.fx.Node, result: Any) -> None:
    """Replaces a node whose value is a nested tuple."""
    for user in list(node.users):
        if user.target is operator.getitem:
            part = result[user.args[1]]
            if isinstance(part, torch.fx.Node):
                user.replace_all_uses_with(part)
                graph.erase_node(user)
            else:
                _replace(graph, user, part)
    if not node.users:
        graph.erase_node(node)
