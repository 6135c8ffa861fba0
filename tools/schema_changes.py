"""Writes the schemas of operators that differ between the supported versions of PyTorch.

    python tools/schema_changes.py FOLDER...

A folder is that of a PyTorch, or of its headers: `make check-versions` downloads those of all
versions to build/versions. The tool reads only names and schemas.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_DECLARED = re.compile(r'\bschema_str = ("(?:[^"\\]|\\.)*");')
_MINOR = re.compile(r"define TORCH_VERSION_MAJOR 2\n.*define TORCH_VERSION_MINOR (\d+)", re.S)


def of_headers(folder: Path) -> tuple[int, dict[str, str]]:
    """The minor version of a PyTorch 2, and the schemas of `aten` in its headers by overload.

    Args:
        folder: `.../torch/include`, `.../torch`, or the folder of installed packages.

    Raises:
        ValueError: if there are none.
    """
    import torch

    found = {}
    for include in (folder, folder / "include", folder / "torch" / "include"):
        for file in sorted((include / "ATen" / "ops").glob("*_ops.h")):
            for match in _DECLARED.finditer(file.read_text(encoding="utf-8")):
                schema = f"aten::{json.loads(match[1])}"
                with suppress(RuntimeError):  # a type that this version lacks
                    schema = str(torch._C.parse_schema(schema))
                found[schema.partition("(")[0]] = schema
        version = include / "torch" / "headeronly" / "version.h"
        if found and (minor := _MINOR.search(version.read_text(encoding="utf-8"))):
            return int(minor[1]), found
    raise ValueError(f"'{folder}' has no headers of PyTorch 2's operators")


def text_of(versions: Mapping[int, Mapping[str, str]]) -> str:
    """The content of the file, for schemas by minor version and overload."""
    minors = sorted(versions)
    lines = [
        "# Schemas that differ between minor versions of PyTorch 2; by tools/schema_changes.py.",
        f"{minors[0]} {minors[-1]}",
    ]
    for name in sorted({name for schemas in versions.values() for name in schemas}):
        if len({versions[minor].get(name) for minor in minors}) == 1:
            continue
        since = minors[0]
        for minor, after in zip(minors, [*minors[1:], None], strict=True):
            schema = versions[minor].get(name)
            if after is not None and versions[after].get(name) == schema:
                continue
            if schema is not None:
                lines.append(f"{since}\t{minor}\t{schema}")
            since = minor + 1
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    from torch_outboard.inspection.drift import CHANGES

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=CHANGES)
    options = parser.parse_args(arguments)
    try:
        versions = dict(map(of_headers, options.folders))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if missing := set(range(min(versions), max(versions))) - set(versions):
        between = ", ".join(f"2.{minor}" for minor in sorted(missing))
        print(f"versions between those given are missing: {between}", file=sys.stderr)
        return 1
    text = text_of(versions)
    options.output.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines()) - 1} schemas of {len(versions)} versions in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
