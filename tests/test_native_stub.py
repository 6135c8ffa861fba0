"""`torch_outboard/_C.pyi` says what the native module has: names, parameters and types.

The module's side is what pybind11 writes at the head of each docstring.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import torch_outboard
from torch_outboard import _C

STUB = Path(torch_outboard.__file__).parent / "_C.pyi"
Definition = ast.FunctionDef | ast.ClassDef

# Types that pybind11 accepts for a number, and its names for types that the stub narrows.
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


def attributes(body: Iterable[ast.stmt]) -> dict[str, ast.expr]:
    """Types of the annotated names."""
    return {
        node.target.id: node.annotation
        for node in body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


STUB_TREE = ast.parse(STUB.read_text())
STUB_BODY = definitions(STUB_TREE.body)
CONSTANTS = attributes(STUB_TREE.body).keys()


def own_names(names: Iterable[str]) -> set[str]:
    """Without what Python and pybind11 give every module and class."""
    return {n for n in names if not n.startswith("__") and "_pybind11_" not in n}


def native_signature(function: object) -> ast.FunctionDef:
    """Parsed from a line such as `add(a: int, arg1: list[int] = 1) -> None`, or of its getter."""
    function = function.fget if isinstance(function, property) else function
    line = (function.__doc__ or "").strip().partition("\n")[0]
    (node,) = ast.parse(f"def f{line[line.index('(') :]}: ...").body
    assert isinstance(node, ast.FunctionDef)
    return node


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


def parameters(node: ast.FunctionDef) -> list[tuple[str, str | None, ast.expr | None]]:
    """Names that a caller may use ("" where there is none), defaults and types."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(every) - len(arguments.defaults)) + [
        ast.unparse(default) for default in arguments.defaults
    ]
    unnamed = len(arguments.posonlyargs)
    return [
        ("" if i < unnamed or re.fullmatch(r"arg\d+", each.arg) else each.arg, default,
         each.annotation)
        for i, (each, default) in enumerate(zip(every, defaults, strict=True))
    ]  # fmt: skip


def difference(stub: ast.stmt, native: ast.stmt, method: bool = False) -> str | None:
    """The error of a stub about a function of the module; None if none."""
    assert isinstance(stub, ast.FunctionDef)
    assert isinstance(native, ast.FunctionDef)
    ours, theirs = parameters(stub)[method:], parameters(native)[method:]
    if len(ours) != len(theirs):
        return f"it has {len(theirs)} parameters and not {len(ours)}"
    for i, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        if our[:2] != their[:2]:
            return f"name and default of parameter {i} are {their[:2]} and not {our[:2]}"
        if not says_the_same(our[2], their[2]):
            return f"parameter {i} is a {spelled(their[2])}"
    if not says_the_same(stub.returns, native.returns):
        return f"it returns {spelled(native.returns)}"
    return None


def test_the_stub_is_that_of_the_module() -> None:
    names = own_names(vars(_C))
    assert set(STUB_BODY) | CONSTANTS == names
    wrong = {}
    for name in names - CONSTANTS:
        native, stub = getattr(_C, name), STUB_BODY[name]
        if not isinstance(native, type):
            wrong[name] = difference(stub, native_signature(native))
            continue
        members, theirs = definitions(stub.body), vars(native)
        properties = attributes(stub.body)
        special = {member for member in members if member.startswith("__")}
        assert special <= theirs.keys()
        assert members.keys() - special | properties.keys() == own_names(theirs)
        for member, kind in properties.items():
            assert isinstance(theirs[member], property)
            returned = native_signature(theirs[member]).returns
            if not says_the_same(kind, returned):
                wrong[f"{name}.{member}"] = f"it is a {spelled(returned)}"
        for member in members.keys() - {"__exit__"}:  # takes anything
            assert not isinstance(theirs[member], property)
            there = native_signature(theirs[member])
            wrong[f"{name}.{member}"] = difference(members[member], there, method=True)
    assert not {name: problem for name, problem in wrong.items() if problem}


@pytest.mark.parametrize(
    ("stub", "native", "problem"),
    [
        ("f(a: int, /) -> None", "f(arg0: SupportsInt | SupportsIndex) -> None", None),
        ("f(a: int) -> None", "f(arg0: SupportsInt | SupportsIndex) -> None", "and not ('a', "),
        ("f(a: int, b: int, /) -> None", "f(arg0: int) -> None", "has 1 parameters"),
        ("f(a: int = 1) -> None", "f(a: int = 2) -> None", "('a', '2') and not"),
        ("f(a: str, /) -> None", "f(arg0: typing.SupportsInt) -> None", "parameter 0 is a int"),
        ("f() -> list[int]", "f() -> list", None),
        ("f() -> list[int]", "f() -> list[str]", "returns list[str]"),
        ("f() -> int", "f() -> int | None", "returns int | None"),
    ],
)
def test_a_difference_is_found(stub: str, native: str, problem: str | None) -> None:
    ours, theirs = (ast.parse(f"def {text}: ...").body[0] for text in (stub, native))
    found = difference(ours, theirs)
    assert found == problem if problem is None else problem in (found or "")
