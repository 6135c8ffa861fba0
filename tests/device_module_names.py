"""What PyTorch's Python sources read from the module of a device: `torch.<device>.<name>`."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

# Functions that return the module of a device.
_GETTERS = frozenset({"get_device_module", "_get_device_module", "_get_device_handle"})
# Variables, parameters and attributes that hold one, whoever assigned them.
_HOLDER = re.compile(
    r"_?(custom_|privateuse1_backend_)?device_(module|mod|handle)|_?privateuse1_backend_module"
)
_NONE = ast.arguments([], [], None, [], [], None, [])
# Not part of what runs on a user's machine.
_LEFT_OUT = ("testing/_internal", "test", "_vendor")


def names_read(torch_folder: Path) -> dict[str, set[str]]:
    """The places, as "file:line", at which each name is read from a device module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(torch_folder.rglob("*.py")):
        file = path.relative_to(torch_folder).as_posix()
        if file.startswith(_LEFT_OUT):
            continue
        text = path.read_text(encoding="utf-8")
        if "getattr(torch" not in text and not re.search("device_(module|mod|handle)", text):
            continue
        for name, line in _reads(ast.parse(text)):
            found[name].add(f"{file}:{line}")
    return dict(found)


def _reads(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for nodes in _scopes(tree):
        holders = _local_holders(nodes)
        for node in nodes:
            if isinstance(node, ast.Attribute) and _is_module(node.value, holders):
                if isinstance(node.ctx, ast.Load):
                    yield node.attr, node.lineno
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("getattr", "hasattr")
                and len(node.args) > 1
                and _is_module(node.args[0], holders)
                and (name := _text(node.args[1], nodes)) is not None
            ):
                yield name, node.lineno


def _scopes(tree: ast.Module) -> Iterator[list[ast.AST]]:
    """The nodes of each function; what stands outside of them counts as one more."""
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    inside: set[ast.AST] = set()
    for function in functions:
        nodes = list(ast.walk(function))
        inside.update(nodes)
        yield nodes
    yield [n for n in ast.walk(tree) if n not in inside]


def _local_holders(nodes: list[ast.AST]) -> set[str]:
    """Variables to which a scope assigns a device module."""
    holders: set[str] = set()
    for node in nodes:
        # Calls a function with the module of the accelerator.
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "_get_device_attr":
            holders.update(a.arg for f in node.args for a in getattr(f, "args", _NONE).args)
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if _makes_module(value):
            holders.update(t.id for t in targets if isinstance(t, ast.Name))
    return holders


def _text(node: ast.AST, scope: list[ast.AST]) -> str | None:
    """The text that an expression stands for: a constant, or a variable that holds one."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    for other in scope:
        if (
            isinstance(other, ast.Assign)
            and isinstance(other.value, ast.Constant)
            and [ast.unparse(target) for target in other.targets] == [ast.unparse(node)]
        ):
            return str(other.value.value)
    return None


def _makes_module(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _makes_module(node.body) or _makes_module(node.orelse)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name in _GETTERS:
        return True
    # getattr(torch, device.type); getattr(torch, "float32") and the like have other uses.
    return (
        name == "getattr"
        and len(node.args) > 1
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id == "torch"
        and bool(re.search("device|backend", ast.unparse(node.args[1])))
    )


def _is_module(node: ast.AST, holders: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in holders or bool(_HOLDER.fullmatch(node.id))
    if isinstance(node, ast.Attribute):
        return bool(_HOLDER.fullmatch(node.attr))
    return _makes_module(node)
