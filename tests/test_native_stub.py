"""`torch_outboard/_C.pyi` says what the native module has: names, parameters and types.

The module's side is what pybind11 writes at the head of each docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import torch_outboard
from torch_outboard import _C

STUB = Path(torch_outboard.__file__).parent / "_C.pyi"
Definition = ast.FunctionDef | ast.ClassDef

# What pybind11 accepts for a number, and how it calls what the stub says more exactly.
SPELLINGS = {
    "SupportsInt | SupportsIndex": "int",
    "SupportsFloat | SupportsIndex": "float",
    "SupportsInt": "int",
    "SupportsFloat": "float",
    "torch.StorageBase": "torch.UntypedStorage",
    "torch._C._distributed_c10d.Backend": "Backend",
    "torch._C._distributed_c10d.Store": "Store",
    "torch.distributed.distributed_c10d.Store": "Store",
    "datetime.timedelta": "timedelta",
    "_C.": "",
}


def definitions(body: Iterable[ast.stmt]) -> dict[str, Definition]:
    return {node.name: node for node in body if isinstance(node, Definition)}


STUB_TREE = ast.parse(STUB.read_text())
STUB_BODY = definitions(STUB_TREE.body)
CONSTANTS = {
    node.target.id
    for node in STUB_TREE.body
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
}


def own_names(names: Iterable[str]) -> set[str]:
    """Without what Python and pybind11 give every module and class."""
    return {n for n in names if not n.startswith("__") and "_pybind11_" not in n}


def native_signature(function: object) -> ast.FunctionDef:
    """Parsed from a line such as `add(a: int, arg1: list[int] = 1) -> None`."""
    line = (function.__doc__ or "").strip().partition("\n")[0]
    (node,) = ast.parse(f"def {line}: ...").body
    assert isinstance(node, ast.FunctionDef)
    return node


def property_type(member: property) -> ast.expr | None:
    """The type of a property: of what its getter returns."""
    signature = (member.fget.__doc__ or "").strip().partition("\n")[0]
    (node,) = ast.parse(f"def getter{signature}: ...").body
    assert isinstance(node, ast.FunctionDef)
    return node.returns


def spelled(annotation: ast.expr | None) -> str:
    """A type as the stub would write it."""
    assert annotation is not None
    text = ast.unparse(annotation)
    text = re.sub(r"\b(typing|collections\.abc|torch_outboard)\.", "", text)
    for theirs, ours in SPELLINGS.items():
        text = text.replace(theirs, ours)
    # The linter puts None last.
    text = re.sub(r"\bNone \| ((?:[^,\[\]]|\[[^\]]*\])*)", r"\1 | None", text)
    # Sizes of arrays are said beside their types.
    return re.sub(r"Annotated\[(.*?), 'FixedSize\(\d+\)'\]", r"\1", text)


def says_the_same(stub: ast.expr | None, native: ast.expr | None) -> bool:
    """Whether the stub's type is the module's, or one of the same kind that says more."""
    ours, theirs = spelled(stub), spelled(native)
    if theirs == "object":
        return True
    # `dict[str, Any]` where the module says no more than `dict`.
    generic = r"\b(dict|list|tuple|Callable)\b(?!\[)"
    pattern = re.sub(generic, lambda m: f"@{m.group(1)}@", theirs)
    pattern = re.escape(pattern)
    pattern = re.sub(r"@(\w+)@", r"\1\\[.*\\]", pattern)
    # Anything where the module says that it is some object.
    pattern = re.sub(r"\bobject\b", ".+", pattern)
    return ours == theirs or re.fullmatch(pattern, ours) is not None


def parameters(node: ast.FunctionDef, method: bool) -> list[tuple[str | None, ast.arg, str | None]]:
    """Names that a caller may use (None where there is none), parameters, and their defaults."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(every) - len(arguments.defaults)) + [
        ast.unparse(default) for default in arguments.defaults
    ]
    unnamed = len(arguments.posonlyargs)
    rows = [
        (None if place < unnamed or re.fullmatch(r"arg\d+", parameter.arg) else parameter.arg,
         parameter, default)
        for place, (parameter, default) in enumerate(zip(every, defaults, strict=True))
    ]  # fmt: skip
    return rows[1:] if method else rows


def difference(stub: ast.FunctionDef, native: ast.FunctionDef, method: bool = False) -> str | None:
    """What a stub says wrong about a function of the module; None if nothing."""
    ours, theirs = parameters(stub, method), parameters(native, method)
    if len(ours) != len(theirs):
        return f"it has {len(theirs)} parameters and not {len(ours)}"
    for (our_name, our, our_default), (name, their, default) in zip(ours, theirs, strict=True):
        if our_name != name:
            return f"'{our.arg}' is called {name or 'by its position'} and not {our_name or 'so'}"
        if our_default != default:
            return f"the default of '{our.arg}' is {default} and not {our_default}"
        if not says_the_same(our.annotation, their.annotation):
            return f"'{our.arg}' is a {spelled(their.annotation)}"
    if not says_the_same(stub.returns, native.returns):
        return f"it returns {spelled(native.returns)}"
    return None


def test_names_are_those_of_the_module() -> None:
    assert set(STUB_BODY) | CONSTANTS == own_names(vars(_C))


FUNCTIONS = [name for name in sorted(own_names(vars(_C))) if callable(getattr(_C, name))]
CLASSES = [name for name in FUNCTIONS if isinstance(getattr(_C, name), type)]


def test_functions_have_the_signatures_of_the_module() -> None:
    wrong = {}
    for name in set(FUNCTIONS) - set(CLASSES):
        stub = STUB_BODY[name]
        assert isinstance(stub, ast.FunctionDef), name
        if problem := difference(stub, native_signature(getattr(_C, name))):
            wrong[name] = problem
    assert not wrong


@pytest.mark.parametrize("name", CLASSES)
def test_classes_have_the_members_of_the_module(name: str) -> None:
    stub = STUB_BODY[name]
    assert isinstance(stub, ast.ClassDef)
    members = definitions(stub.body)
    native = vars(getattr(_C, name))
    special = {member for member in members if member.startswith("__")}
    assert special <= native.keys()
    assert members.keys() - special == own_names(native)
    for member, definition in members.items():
        assert isinstance(definition, ast.FunctionDef)
        if isinstance(native[member], property):
            assert [ast.unparse(d) for d in definition.decorator_list] == ["property"]
            assert says_the_same(definition.returns, property_type(native[member])), member
        elif member != "__exit__":  # takes anything
            assert difference(definition, native_signature(native[member]), True) is None, member


@pytest.mark.parametrize(
    ("stub", "native", "problem"),
    [
        ("f(a: int, /) -> None", "f(arg0: SupportsInt | SupportsIndex) -> None", None),
        ("f(a: int) -> None", "f(arg0: SupportsInt | SupportsIndex) -> None", "by its position"),
        ("f(a: int, /) -> None", "f(a: int) -> None", "is called a"),
        ("f(a: int, b: int, /) -> None", "f(arg0: int) -> None", "has 1 parameters"),
        ("f(a: int = 1) -> None", "f(a: int = 2) -> None", "default of 'a' is 2"),
        ("f(a: str, /) -> None", "f(arg0: typing.SupportsInt) -> None", "'a' is a int"),
        ("f() -> list[int]", "f() -> list", None),
        ("f() -> list[int]", "f() -> list[str]", "returns list[str]"),
        ("f() -> int", "f() -> int | None", "returns int | None"),
        ("f() -> int | str", "f() -> object", None),
    ],
)
def test_a_difference_is_found(stub: str, native: str, problem: str | None) -> None:
    ours, theirs = (ast.parse(f"def {text}: ...").body[0] for text in (stub, native))
    assert isinstance(ours, ast.FunctionDef)
    assert isinstance(theirs, ast.FunctionDef)
    found = difference(ours, theirs)
    assert found == problem if problem is None else problem in (found or "")
