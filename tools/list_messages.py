"""Prints the messages of the package, `file:line: message`, to be read in one listing.

    python -m tools.list_messages [--docstrings] [PATH ...]

Messages are the strings in `raise`, in warnings, in commands' output and help, in the results of
functions such as `problem_with` (Python), and in `throw`, TORCH_CHECK*, TORCH_WARN* and functions
that fail, raise or report (C and C++). A part that is computed stands as `{}`. With --docstrings
also the docstrings of public Python names.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOTS = ("torch_outboard", "csrc")
# Copies that the build makes.
MADE = ("torch_outboard/include/", "torch_outboard/share/", "torch_outboard/lib/")
# The last name of a call whose strings a person sees.
PYTHON_CALL = re.compile(
    r"(^|_)(print|warn|warning|notice|fail|error|exit|report|write|add_argument|add_parser|say"
    r"|ArgumentParser|reason|refuse|decline|excuse)(_|$)"
)
# Functions that return a sentence, or a part of one.
SENTENCES = re.compile(r"(^|_)(problem|words|remedy|reason|refusal|why|excuse|advice|notice)(_|$)")
NATIVE_CALL = re.compile(
    r"\b(throw\b|(TORCH_(INTERNAL_)?(CHECK|WARN)\w*|OUTBOARD_CHECKED|C10_THROW_ERROR|\w*(fail|raise|throw"
    r"|report|warn|last_error|value_error|type_error|index_error|import_error)\w*)\s*\()"
)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:[^"\\\n]|\\.)*")', re.DOTALL)


def _text(node: ast.AST) -> str | None:
    """A string, with {} for what is computed; None for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "{}" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        left, right = _text(node.left), _text(node.right)
        if left is not None or right is not None:
            return (left or "{}") + ((right or "{}") if isinstance(node.op, ast.Add) else "")
    return None


def _strings(node: ast.AST) -> Iterator[str]:
    """The outermost strings below a node."""
    found = _text(node)
    if found is not None:
        yield found
        return
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


def _is_message_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return bool(PYTHON_CALL.search(name))


def _docstring(node: ast.AST) -> tuple[int, str] | None:
    if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
        return None
    text = ast.get_docstring(node)
    if text is None or getattr(node, "name", "").startswith("_"):
        return None
    return node.body[0].lineno, f"({getattr(node, 'name', 'module')}) {text}"


def _returned(node: ast.AST) -> Iterator[ast.Return]:
    """The `return` of a function that makes sentences."""
    if isinstance(node, ast.FunctionDef) and SENTENCES.search(node.name):
        yield from (part for part in ast.walk(node) if isinstance(part, ast.Return))


def python_messages(source: str, docstrings: bool) -> Iterator[tuple[int, str]]:
    """Lines and messages of a Python file."""
    tree = ast.parse(source)
    seen: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        found: list[tuple[int, str]] = []
        says = (isinstance(node, ast.Raise) and node.exc is not None) or _is_message_call(node)
        for part in [node] if says else _returned(node):
            joined = " | ".join(text for text in _strings(part) if " " in text.strip())
            if joined:
                found.append((part.lineno, joined))
        if docstrings and (doc := _docstring(node)) is not None:
            found.append(doc)
        for message in found:
            if message not in seen:
                seen.add(message)
                yield message


def _call_end(source: str, start: int) -> int:
    """The end of the statement that begins at `start`: its `;` outside brackets and strings."""
    depth, at = 0, start
    while at < len(source):
        if source[at] == '"' and (literal := LITERAL.match(source, at)):
            at = literal.end()
            continue
        if source[at] == "'":  # a character, such as '"'
            at += 4 if source[at + 1] == "\\" else 3
            continue
        depth += (source[at] in "([{") - (source[at] in ")]}")
        if depth < 0 or (depth == 0 and source[at] == ";"):
            return at
        at += 1
    return at


def native_messages(source: str) -> Iterator[tuple[int, str]]:
    """Lines and messages of a C or C++ file."""

    def blank(found: re.Match[str]) -> str:
        return found[1] or re.sub(r"[^\n]", " ", found[0])

    source = COMMENT.sub(blank, source)
    end = 0
    for call in NATIVE_CALL.finditer(source):
        if call.start() < end or re.search(r"#\s*(define|include)[^\n]*$", source[: call.start()]):
            continue
        stop = _call_end(source, call.start())
        # Adjacent literals are one; between others stands something computed.
        text = LITERAL.findall(re.sub(r'(?<!\\)"\s*"', "", source[call.end() : stop]))
        if any(" " in part.strip() for part in text):
            end = stop
            yield source.count("\n", 0, call.start()) + 1, "{}".join(text)


def messages(root: Path, paths: Sequence[str], docstrings: bool) -> Iterator[str]:
    """Lines `file:line: message` of all files below the paths."""
    for path in sorted(file for name in paths for file in _files(root / name)):
        name = path.relative_to(root).as_posix()
        if name.startswith(MADE):
            continue
        source = path.read_text()
        found = (
            python_messages(source, docstrings) if path.suffix == ".py" else native_messages(source)
        )
        for line, text in sorted(found):
            yield f"{name}:{line}: {' '.join(text.split())}"


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    for ending in ("py", "c", "h", "cpp"):
        yield from path.rglob(f"*.{ending}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=ROOTS, metavar="PATH", help="files or folders")
    parser.add_argument("--docstrings", action="store_true", help="also docstrings of public names")
    options = parser.parse_args(arguments)
    root = Path(__file__).resolve().parents[1]
    for line in messages(root, options.paths, options.docstrings):
        print(line)


if __name__ == "__main__":
    main()
