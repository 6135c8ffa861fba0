"""Writes what schemas of operators differ between the supported versions of PyTorch.

    python tools/schema_changes.py FOLDER...

A folder is that of a PyTorch, or of its headers: `make check-versions` brings those of all versions
to build/versions. They are read for names and schemas alone.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    from torch_outboard.inspection.schemas import CHANGES, minor_of, of_headers, write_changes

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=CHANGES)
    options = parser.parse_args(arguments)
    versions = {}
    for folder in options.folders:
        version, schemas = of_headers(folder)
        minor = minor_of(version)
        if minor is None:
            print(f"{folder} is PyTorch {version}, and not 2", file=sys.stderr)
            return 1
        versions[minor] = schemas
    if missing := set(range(min(versions), max(versions))) - set(versions):
        between = ", ".join(f"2.{minor}" for minor in sorted(missing))
        print(f"versions between those given are missing: {between}", file=sys.stderr)
        return 1
    text = write_changes(versions)
    options.output.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines()) - 1} schemas of {len(versions)} versions in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
