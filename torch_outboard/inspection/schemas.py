"""Schemas of operators in other versions of PyTorch: where they come from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from torch_outboard.inspection import dispatcher

# Overloads whose schemas differ between the versions of PyTorch that the kit supports, one schema
# a line behind the first and the last minor version of PyTorch 2 that has it. Overloads that are
# not there are the same in all of them. Written by tools/schema_changes.py.
CHANGES = Path(__file__).with_name("schema_changes.tsv")

_DECLARED = re.compile(r'\bschema_str = ("(?:[^"\\]|\\.)*");')
_VERSION = re.compile(r"define TORCH_VERSION_(MAJOR|MINOR|PATCH) (\d+)")


class UnknownVersion(Exception):
    """Schemas that cannot be had; says why."""


def name_of(schema: str) -> str:
    """The overload that a schema is of: `"aten::add.Tensor"`."""
    return schema.partition("(")[0]


def installed() -> dict[str, str]:
    """The schemas of this process by overload, those of extensions that are loaded included."""
    found = ((name, dispatcher.schema_of(name)) for name in dispatcher.overload_names())
    return {name: schema for name, schema in found if schema is not None}


def save(file: Path) -> int:
    """Writes them to a file, for `schemas_of` of another version; returns how many they are.

    Raises:
        OSError: if it cannot be written.
    """
    found = installed()
    text = json.dumps({"torch": str(torch.__version__), "schemas": found}, indent=0)
    file.write_text(text, encoding="utf-8")
    return len(found)


def schemas_of(source: str) -> tuple[str, dict[str, str]]:
    """The version of a PyTorch and its schemas by overload.

    Args:
        source: a file that `save` wrote; the folder of an installed PyTorch, or one above (its
            headers have the schemas of `aten`); or a supported version: `"2.14"`, `"2.14.1"`.

    Raises:
        UnknownVersion: if it is none of these.
    """
    if re.fullmatch(r"\d+\.\d+(\.\d+)?(\+\w+)?", source):
        return source, of_version(source)
    path = Path(source)
    if path.is_dir():
        return of_headers(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return str(content["torch"]), dict(content["schemas"])
    except OSError as error:
        raise UnknownVersion(f"there is no version and no file '{source}': {error}") from None
    except (ValueError, KeyError, TypeError):
        raise UnknownVersion(
            f"'{source}' holds no schemas; write it with `schemas --save`"
        ) from None


def of_headers(folder: Path) -> tuple[str, dict[str, str]]:
    """The version and the schemas of `aten` in the headers of a PyTorch.

    Args:
        folder: `.../torch/include`, `.../torch`, or the folder of installed packages.

    Raises:
        UnknownVersion: if there are none.
    """
    for include in (folder, folder / "include", folder / "torch" / "include"):
        operators = include / "ATen" / "ops"
        if not operators.is_dir():
            continue
        numbers = dict(_VERSION.findall(_text(include / "torch" / "headeronly" / "version.h")))
        version = ".".join(numbers.get(part, "?") for part in ("MAJOR", "MINOR", "PATCH"))
        texts = map(_text, sorted(operators.glob("*_ops.h")))
        found = {name_of(schema): schema for text in texts for schema in _declared(text)}
        return version, found
    raise UnknownVersion(f"'{folder}' is no folder of PyTorch: it has no headers of operators")


def _declared(text: str) -> Iterator[str]:
    """The schemas in a header, written as the dispatcher writes them."""
    for match in _DECLARED.finditer(text):
        schema = f"aten::{json.loads(match[1])}"
        try:
            yield str(torch._C.parse_schema(schema))
        except RuntimeError:  # a type that this version does not know
            yield schema


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.is_file() else ""


def of_version(version: str) -> dict[str, str]:
    """The schemas of a supported version of PyTorch, from this one's and what is known to differ.

    Raises:
        UnknownVersion: if that version or the installed one is not among those known.
    """
    minor, own = minor_of(version), minor_of(str(torch.__version__))
    first, last, changes = read_changes(CHANGES.read_text(encoding="utf-8"))
    for number in (minor, own):
        if number is None or not first <= number <= last:
            raise UnknownVersion(
                f"PyTorch 2.{first} to 2.{last} are known, and {version} was asked for from "
                f"{torch.__version__}: run `schemas --save FILE` with that version, and "
                "`--against FILE` here"
            )
    found = {name: schema for name, schema in installed().items() if name not in changes}
    for name, schemas in changes.items():
        for (since, until), schema in schemas.items():
            if minor is not None and since <= minor <= until:
                found[name] = schema
    return found


def minor_of(version: str) -> int | None:
    """14 of `"2.14.1+cpu"`; None where the major version is not 2."""
    match = re.match(r"2\.(\d+)", version)
    return int(match[1]) if match else None


Changes = dict[str, dict[tuple[int, int], str]]


def read_changes(text: str) -> tuple[int, int, Changes]:
    """The first and the last minor version, and by overload its schemas in ranges of versions."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    first, last = map(int, lines[0].split())
    found: Changes = {}
    for line in lines[1:]:
        since, until, schema = line.split("\t")
        found.setdefault(name_of(schema), {})[int(since), int(until)] = schema
    return first, last, found


def write_changes(versions: Mapping[int, Mapping[str, str]]) -> str:
    """The text of such a file, for schemas by minor version and overload."""
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
