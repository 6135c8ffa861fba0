"""Checks the structure of the sources and prints a sentence for each fault; exit status 1 for any.

    python tools/check_structure.py [--root FOLDER]

- Modules of the package do not import each other in a circle, and neither do its folders, at any
  depth. All imports count: also those in functions, and by name, as in `import_module("...")`; only
  those under TYPE_CHECKING do not.
- Includes of csrc/ point down in the table of layers.
- Nothing native parses numbers by functions that the program's locale changes.
- Kernel sources have different names, since tables name them without their folder.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

PACKAGE = "torch_outboard"
# Folders of csrc/, the lowest first; those of one line may include each other. The longest entry
# that a file lies under is its layer. All layers may include files of csrc/ itself.
LAYERS = (
    ("include",),
    ("runtime",),
    ("dispatch",),
    ("autograd",),
    ("tensors",),
    ("transfer",),
    ("cpu_kernels", "decompositions", "distributed", "inspection", "profiler", "random"),
    ("device_kernels",),
    ("python",),
)
NUMBER_PARSERS = re.compile(
    r"\b(stod|stof|stold|strtod|strtof|strtold|atof)\s*\("
    # With a conversion to floating point; integers look the same in every locale.
    r'|\b(v?[fs]?scanf)\s*\([^;]*"[^"\n]*%\*?\d*[lL]?[aefgAEFG]'
)
NATIVE = (".c", ".cpp", ".h")
# Files of builds and runs between the sources.
MADE = ("__pycache__", f"{PACKAGE}/include", f"{PACKAGE}/lib", f"{PACKAGE}/share")


def files(root: Path, folder: str, endings: Sequence[str]) -> list[Path]:
    """Source files below a folder, by their paths from the root."""
    found = sorted(path.relative_to(root) for path in (root / folder).rglob("*") if path.is_file())
    made = tuple(f"/{name}/" for name in MADE)
    return [
        path
        for path in found
        if path.suffix in endings and not any(name in f"/{path.as_posix()}" for name in made)
    ]


# ---- Imports of Python


def module_name(path: Path) -> str:
    """`"a.b.c"` of a/b/c.py; the file __init__.py of a package counts as a module of its own."""
    return ".".join(path.with_suffix("").parts)


def imported_names(node: ast.AST, package: str) -> Iterator[str]:
    """What code in `package` imports: modules, and things in modules."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        children = list(node.orelse)
    elif isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        start = [*(above if node.level else []), *([node.module] if node.module else [])]
        yield from (".".join([*start, alias.name]) for alias in node.names)
    for child in children:
        yield from imported_names(child, package)


def texts(tree: ast.AST) -> Iterator[str]:
    """String constants with a dot; the package's name alone has other meanings, too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


def imports(root: Path) -> dict[str, set[str]]:
    """The modules that each module of the package imports."""
    paths = {module_name(path): path for path in files(root, PACKAGE, (".py", ".pyi"))}

    def exactly(name: str) -> str | None:
        return next((known for known in (name, f"{name}.__init__") if known in paths), None)

    def at_or_above(name: str) -> str | None:
        while name and exactly(name) is None:
            name = name.rpartition(".")[0]
        return exactly(name)

    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        tree = ast.parse((root / path).read_text(), str(path))
        imported = {at_or_above(text) for text in imported_names(tree, name.rpartition(".")[0])}
        imported |= {exactly(text) for text in texts(tree)}
        found[name] = {other for other in imported if other is not None and other != name}
    return found


def circles(root: Path) -> Iterator[str]:
    """Circles among the entries of a package: modules, and folders with all their modules."""
    witnesses: dict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for module, others in imports(root).items():
        for other in sorted(others):
            ours, theirs = module.split("."), other.split(".")
            depth = next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
            edge = (".".join(ours[: depth + 1]), ".".join(theirs[: depth + 1]))
            witnesses[".".join(ours[:depth])].setdefault(edge, module)
    for edges in witnesses.values():
        remaining = dict(edges)
        while True:
            graph: dict[str, set[str]] = defaultdict(set)
            for importer, imported in remaining:
                graph[importer].add(imported)
            try:
                TopologicalSorter(graph).prepare()
                break
            except CycleError as error:
                circle = error.args[1][::-1]  # each imports the next
            steps = list(pairwise(circle))
            words = ", which imports ".join(
                f"{imported}" + (f" (in {edges[a, imported]})" if edges[a, imported] != a else "")
                for a, imported in steps
            )
            yield f"Imports go in a circle: {circle[0]} imports {words}."
            del remaining[steps[-1]]


# ---- Includes, parsers, kernels


def layer(path: str) -> int | None:
    """The layer of a path from csrc/; None if it is in none."""
    names = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    while path:
        if path in names:
            return names[path]
        path = path.rpartition("/")[0]
    return None


def upward_includes(root: Path) -> Iterator[str]:
    base = root / "csrc"
    unknown = set()
    for path in files(root, "csrc", NATIVE):
        own = layer(path.relative_to("csrc").as_posix())
        if own is None and len(path.parts) > 2:
            unknown.add(path.parts[1])
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            if own is None or not (match := re.match(r'\s*#\s*include\s+"([^"]+)"', line)):
                continue
            beside = (root / path).parent / match[1]
            target = beside if beside.exists() else base / match[1]
            inside = target.resolve().is_relative_to(base.resolve())
            name = target.resolve().relative_to(base.resolve()).as_posix() if inside else ""
            if (other := layer(name)) is not None and other > own:
                yield f"{path}:{number} includes {name}, which is in a layer above its own."
    for folder in sorted(unknown):
        yield f"csrc/{folder} is in no layer: add it to LAYERS."


def without_comments(text: str) -> str:
    """C or C++ with blanks for comments, so that line numbers stay."""
    pattern = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else re.sub(r"[^\n]", " ", match[0])

    return re.sub(pattern, blank, text, flags=re.DOTALL)


def parsers_by_locale(root: Path) -> Iterator[str]:
    for folder in ("csrc", f"{PACKAGE}/drivers"):
        for path in files(root, folder, NATIVE):
            text = without_comments((root / path).read_text())
            for match in NUMBER_PARSERS.finditer(text):
                number = text.count("\n", 0, match.start()) + 1
                yield (
                    f"{path}:{number} parses a number by {match[1] or match[2]}, whose answer "
                    "depends on the locale: use std::from_chars, or strtod_l with the locale C."
                )


def kernels_of_one_name(root: Path) -> Iterator[str]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in files(root, f"{PACKAGE}/kernels", (".cl",)):
        found[path.name].append(path.as_posix())
    for paths in found.values():
        if len(paths) > 1:
            yield f"{' and '.join(paths)} have one name, and tables name kernels without folder."


CHECKS = (circles, upward_includes, parsers_by_locale, kernels_of_one_name)


def findings(root: Path) -> list[str]:
    """A sentence for each fault."""
    return [finding for check in CHECKS for finding in check(root)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parent.parent, help="of the sources"
    )
    found = findings(parser.parse_args(arguments).root)
    print("\n".join(found) or "No fault in the structure of the sources.")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
