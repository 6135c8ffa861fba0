"""Which inputs of Inductor's code for the CPU go to kernels of that code alone.

Those take nothing but the address of a tensor, so that one of the device serves as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Other functions of Inductor's that take tensors of any device; from PyTorch 2.14 on, as tuples.
_CHECKS = {"assert_size_stride", "assert_size_stride_grouped", "assert_alignment"}


def kernel_inputs(source: str) -> list[int]:
    """Places of the inputs that only kernels get.

    Args:
        source: what Inductor wrote for a graph: a Python module with kernels in C++, and a function
            `call` that takes the inputs as a list. None are found in anything else.
    """
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError):
        return []
    functions = [
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == "call"
    ]
    if len(functions) != 1:
        return []
    names = _inputs(functions[0])
    known = _CHECKS | set(_kernels(module))
    elsewhere = set(_names_but_arguments(functions[0], known))
    return [place for place, name in enumerate(names) if name not in elsewhere]


def _kernels(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(made := node.value, ast.Call)
            and isinstance(made.func, ast.Attribute)
            and made.func.attr == "cpp_pybinding"
        ):
            yield node.targets[0].id


def _inputs(function: ast.FunctionDef) -> list[str]:
    """The names in `a, b = args`, with which a function of Inductor's begins."""
    first = function.body[0]
    if (
        isinstance(first, ast.Assign)
        and isinstance(first.targets[0], ast.Tuple)
        and isinstance(first.value, ast.Name)
        and first.value.id == function.args.args[-1].arg
        and all(isinstance(name, ast.Name) for name in first.targets[0].elts)
    ):
        return [name.id for name in first.targets[0].elts if isinstance(name, ast.Name)]
    return []


def _names_but_arguments(node: ast.AST, known: set[str]) -> Iterator[str]:
    """Names that are read as something else than an argument of one of the `known` functions."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in known:
        parts = [child.elts if isinstance(child, ast.Tuple) else [child] for child in children]
        children = [part for some in parts for part in some if not isinstance(part, ast.Name)]
    for child in children:
        yield from _names_but_arguments(child, known)
