"""Passes over graphs, which make their random numbers equal those of eager kernels.

A running graph reserves states of the generator in the order of its operators, as eager mode does.
A captured graph reads the states from tensors that are refilled before each replay. Numbers are
pure functions of a state and an index, so Inductor fuses them into kernels, and a backward pass may
recompute them. Code for the CPU calls a function for them, which is faster there. Operators that
are not rewritten here run as in eager mode, in the order of the program.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import sympy
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._inductor.fx_passes import post_grad
from torch._inductor.ir import FlexibleLayout, Pointwise
from torch._inductor.lowering import make_fallback, register_lowering
from torch._inductor.virtualized import ops
from torch.utils._ordered_set import OrderedSet

from torch_outboard import _C
from torch_outboard.inductor import device_operators
from torch_outboard.inductor.device_interface import OutboardInterface
from torch_outboard.inductor.lowerings.expressions import expressions_in_use
from torch_outboard.inductor.target import placement_of_graphs, target_of
from torch_outboard.state import state

aten = torch.ops.aten
_LIBRARY = torch.library.Library("outboard_compiled", "DEF")
_WORDS = 1 << 32
_UNIT = 2.0**-24
# Folders with functions that write parts of compiled graphs.
_SOURCES = ("inductor", "ops/functions", "ops/sources")


@cache
def hash_of_sources() -> Any:
    """Hash of all Python files that write compiled graphs; PyTorch's function caches only one."""
    root = Path(__file__).parents[1]
    files = (path for folder in _SOURCES for path in (root / folder).rglob("*.py"))
    return get_hash_for_files(tuple(sorted(map(str, files))))


# ---- Random numbers


def _philox_states(count: int, device: torch.device, run: int) -> torch.Tensor:
    """Seed and offset of `count` operators: int64 of sizes (count, 2), on the device.

    `run` differs for each call in a graph, so that no pass merges two equal calls. During a
    capture, the result is a tensor that each replay refills.
    """
    states = _active.states
    if states is None:
        return _reserve(count, device, run)
    if not states.buffers:
        states.calls.append((count, device, run))
        return _reserve(count, device, run)
    buffer = states.buffers[states.taken]
    states.taken += 1
    return buffer


def _reserve(count: int, device: torch.device, run: int) -> torch.Tensor:
    index = device.index if device.index is not None else _C.current_device()
    states: torch.Tensor = torch.ops.outboard_compiled.philox_host_states(count, index, run)
    return states.to(device)


def _fake_states(count: int, device: torch.device, run: int) -> torch.Tensor:
    return torch.empty((count, 2), dtype=torch.int64, device=device)


def _fake_values(dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    def fake(size: Sequence[int], states: torch.Tensor, *draw: int) -> torch.Tensor:
        return torch.empty(size, dtype=dtype, device=states.device)

    return fake


def define() -> None:
    """Defines the operators and their lowerings.

    Operators that code for the CPU calls are defined in csrc/random/graph_draws.cpp, since
    packages call them, too.
    """
    _LIBRARY.define(
        "philox_states(int count, Device device, int run) -> Tensor",
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    _LIBRARY.define("philox_words(SymInt[] size, Tensor states, int draw) -> Tensor")
    _LIBRARY.impl("philox_states", _philox_states, "CompositeExplicitAutograd")
    library = torch.ops.outboard_compiled
    for name, fake in (
        ("philox_host_states", lambda count, index, run: torch.empty(count, 2, dtype=torch.int64)),
        ("philox_below", _fake_values(torch.bool)),
        ("philox_uniform", _fake_values(torch.float32)),
    ):
        torch.library.register_fake(f"outboard_compiled::{name}", fake, lib=_LIBRARY)
        make_fallback(getattr(library, name).default, warn=False)
    torch.library.register_fake("outboard_compiled::philox_states", _fake_states, lib=_LIBRARY)
    fake_words = _fake_values(torch.int64)
    torch.library.register_fake("outboard_compiled::philox_words", fake_words, lib=_LIBRARY)
    make_fallback(library.philox_states.default, warn=False)
    register_lowering(library.philox_words.default, type_promotion_kind=None)(_lower_words)
    device_operators.define(_LIBRARY)


def _lower_words(size: Sequence[Any], states: Any, draw: int) -> Any:
    """Philox words of 32 bits: number i of an operator is word i % 4 of block i / 4."""
    states.realize()
    load = states.make_loader()
    strides = FlexibleLayout.contiguous_strides(size)

    def inner(index: Sequence[sympy.Expr]) -> Any:
        linear = sum((i * s for i, s in zip(index, strides, strict=True)), sympy.S.Zero)
        seed, offset = (load([sympy.Integer(draw), sympy.Integer(part)]) for part in (0, 1))
        # Inductor's only operation with four arguments that draws random integers.
        return ops.randint64(
            seed, ops.index_expr(linear, torch.int64), offset, ops.constant(0, torch.int64)
        )

    return Pointwise.create(
        device=states.get_device(), dtype=torch.int64, inner_fn=inner, ranges=list(size)
    )


class UseOwnNumbers(CustomGraphPass):
    """Rewrites operators that draw, before the graph is split into forward and backward.

    Args:
        writes: the class that writes the values of a draw.
        first: another rewrite, before this one.
    """

    def __init__(
        self, writes: type[Words], first: Callable[[torch.fx.Graph], None] | None = None
    ) -> None:
        self.writes = writes
        self.first = first

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.first is not None:
            self.first(graph)
        for run, (device, nodes) in enumerate(_runs(graph)):
            with graph.inserting_before(nodes[0]):
                states = _insert(
                    graph, nodes[0], torch.ops.outboard_compiled.philox_states.default,
                    len(nodes), device, run,
                )  # fmt: skip
            for draw, node in enumerate(nodes):
                rewrite = _rewrite_of(node)
                assert rewrite is not None
                with graph.inserting_before(node):
                    rewrite(graph, node, self.writes(graph, node, states, draw))
        graph.eliminate_dead_code()

    def uuid(self) -> Any:
        """The key of PyTorch's caches: the backend's and users' sources, device and placement."""
        device = torch.device(state.name, _C.current_device())
        return (
            hash_of_sources(),
            f"{OutboardInterface.get_compute_capability(device)} {target_of(device)}",
            self.writes.__name__,
            placement_of_graphs(_C.current_device()),
            *expressions_in_use(),
        )


def _runs(graph: torch.fx.Graph) -> list[tuple[torch.device, list[torch.fx.Node]]]:
    """Runs of nodes to rewrite, of one device each; another operator that draws ends a run."""
    runs: list[tuple[torch.device, list[torch.fx.Node]]] = []
    for node in graph.nodes:
        if _rewrite_of(node) is not None:
            device = _value(node).device
            if not runs or runs[-1][0] != device:
                runs.append((device, []))
            runs[-1][1].append(node)
        elif device_operators.is_marked(node.target):
            if device_operators.draws(node.target):
                runs.append((torch.device("meta"), []))
            device_operators.keep(node)
    return [(device, nodes) for device, nodes in runs if nodes]


def _value(node: torch.fx.Node) -> torch.Tensor:
    value = node.meta.get("val")
    return value[0] if isinstance(value, (tuple, list)) and value else value


def _rewrite_of(node: torch.fx.Node) -> Any:
    """The function that rewrites a node; None to leave the node."""
    if node.op != "call_function":
        return None
    value = _value(node)
    if not isinstance(value, torch.Tensor) or value.device.type != state.name:
        return None
    if node.target is aten.native_dropout.default:
        _, p, train = node.args
        if train is not False and isinstance(p, (int, float)) and 0 < p < 1:
            return _dropout
    if (
        node.target is aten.bernoulli.p
        and isinstance(node.args[1], (int, float))
        and node.kwargs.get("generator") is None
        and 0 <= node.args[1] <= 1
    ):
        return _bernoulli
    if node.target in (aten.rand.default, aten.rand_like.default):
        return _rand if value.dtype == torch.float32 else None
    return None


class Words:
    """Values of a draw, from words of 32 bits that are fused into kernels."""

    def __init__(self, graph: Any, node: torch.fx.Node, states: torch.fx.Node, draw: int) -> None:
        self.graph = graph
        self.node = node
        self.states = states
        self.draw = draw

    def _size(self) -> list[Any]:
        node, arguments = self.node, cast(Any, self.node.args)
        if node.target is aten.rand.default:
            return list(arguments[0])
        x = arguments[0]
        return [
            length
            if isinstance(length, int)
            else _insert(self.graph, node, aten.sym_size.int, x, dim)
            for dim, length in enumerate(x.meta["val"].shape)
        ]

    def _draw(self, op: Any, *rest: Any) -> torch.fx.Node:
        return _insert(self.graph, self.node, op, self._size(), self.states, self.draw, *rest)

    def _words(self) -> torch.fx.Node:
        return self._draw(torch.ops.outboard_compiled.philox_words.default)

    def below(self, p: float) -> torch.fx.Node:
        """True with the probability `p`; bool."""
        threshold = math.ceil(p * _WORDS)
        return _insert(self.graph, self.node, aten.lt.Scalar, self._words(), threshold)

    def uniform(self) -> torch.fx.Node:
        """Numbers in [0, 1); float32."""
        graph, node = self.graph, self.node
        high = _insert(graph, node, aten.__rshift__.Scalar, self._words(), 8)
        convert = torch.ops.prims.convert_element_type.default
        whole = _insert(graph, node, convert, high, torch.float32)
        return _insert(graph, node, aten.mul.Tensor, whole, _UNIT)


class HostValues(Words):
    """Values of a draw, from functions that code for the CPU calls."""

    def below(self, p: float) -> torch.fx.Node:
        op = torch.ops.outboard_compiled.philox_below.default
        return self._draw(op, math.ceil(p * _WORDS))

    def uniform(self) -> torch.fx.Node:
        return self._draw(torch.ops.outboard_compiled.philox_uniform.default)


def _dropout(graph: Any, node: Any, values: Words) -> None:
    x, p, _ = node.args
    mask = values.below(1 - p)
    kept = _insert(graph, node, aten.mul.Tensor, x, mask)
    out = _insert(graph, node, aten.mul.Tensor, kept, 1 / (1 - p))
    for user in list(node.users):
        user.replace_all_uses_with(mask if user.args[1] == 1 else out)
        graph.erase_node(user)
    graph.erase_node(node)


def _bernoulli(graph: Any, node: Any, values: Words) -> None:
    convert = torch.ops.prims.convert_element_type.default
    drawn = _insert(graph, node, convert, values.below(node.args[1]), _value(node).dtype)
    node.replace_all_uses_with(drawn)
    graph.erase_node(node)


def _rand(graph: Any, node: Any, values: Words) -> None:
    node.replace_all_uses_with(values.uniform())
    graph.erase_node(node)


def _insert(graph: Any, like: torch.fx.Node, op: Any, *arguments: Any) -> torch.fx.Node:
    """Inserts a call with the metadata of `like`, without its tag of activation checkpointing."""
    node: torch.fx.Node = graph.call_function(op, arguments)
    values = torch.fx.node.map_arg(arguments, lambda x: x.meta["val"])
    mode = torch._guards.detect_fake_mode(like.meta["val"])
    assert mode is not None
    with mode:
        node.meta = {**like.meta, "val": op(*values)}
    for key in ("tensor_meta", "recompute"):
        node.meta.pop(key, None)
    return node


class States:
    """States that a graph reserves from the generator in one run, in the order of its operators.

    Attributes:
        calls: the arguments of each call of philox_states.
        buffers: tensors from which a captured graph reads the states.
        taken: number of those tensors that operators have taken.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, torch.device, int]] = []
        self.buffers: list[torch.Tensor] = []
        self.taken = 0

    def make_buffers(self) -> None:
        """Creates the tensors; call it outside of a capture, whose work could overwrite them."""
        self.buffers = [
            torch.zeros((count, 2), dtype=torch.int64, device=device)
            for count, device, _ in self.calls
        ]
        self.taken = 0

    def refill(self) -> None:
        """Reserves states again, as a run of the graph would."""
        for buffer, call in zip(self.buffers, self.calls, strict=True):
            buffer.copy_(_reserve(*call))


class _Active(threading.local):
    states: States | None = None


_active = _Active()


@contextmanager
def noting(states: States) -> Iterator[None]:
    """Within, `states` records reservations, or serves them from its tensors once created."""
    before, _active.states = _active.states, states
    try:
        yield
    finally:
        _active.states = before


def pytorch_keeps_order() -> bool:
    """Whether PyTorch keeps the order of operators that draw, as it does from 2.13 on."""
    return hasattr(post_grad, "_chain_random_ops_for_ordering")


class KeepOrder(CustomGraphPass):
    """Makes each operator that draws depend on the one before; runs after differentiation.

    Otherwise Inductor reorders them to save memory, and one draws the numbers that another draws in
    eager mode.
    """

    def __call__(self, graph: torch.fx.Graph) -> None:
        from torch._inductor.fx_passes.control_dependencies import preserve_node_ordering

        drawing = [node for node in graph.nodes if device_operators.is_marked(node.target)]
        before = {node: OrderedSet([last]) for last, node in itertools.pairwise(drawing)}
        if before:
            preserve_node_ordering(graph, before)

    def uuid(self) -> Any:
        """The key of PyTorch's caches: the backend's sources."""
        return hash_of_sources()
