"""Names that PyTorch's Python sources read from a device module: `torch.<device>.<name>`."""

import re
from collections import defaultdict
from pathlib import Path

# Calls that return the module of a device; getattr(torch, "float32") and the like have other uses.
_MADE = (
    r"(?:\w+\.)*_?get_device_(?:module|handle)\([^()]*\)"
    r"|getattr\(\s*torch,[^()\"]*(?:device|backend)[^()\"]*(?:\(\)[^()]*)?\)"
)
# Variables, parameters and attributes that hold one, wherever they were assigned.
_HOLDER = (
    r"_?(?:custom_|privateuse1_backend_)?device_(?:module|mod|handle)|_?privateuse1_backend_module"
)
_ASSIGNED = re.compile(rf"^\s*(\w+)(?:: [^=\n]+)? = (?:{_MADE})", re.MULTILINE)
# A function that calls another with the module of the accelerator.
_PASSED = re.compile(r"_get_device_attr\(lambda (\w+): ")
# Not part of what runs on a user's machine.
_LEFT_OUT = ("testing/_internal", "test", "_vendor")


def names_read(torch_folder: Path) -> dict[str, set[str]]:
    """The locations, as "file:line", where each name is read from a device module."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(torch_folder.rglob("*.py")):
        file = path.relative_to(torch_folder).as_posix()
        if file.startswith(_LEFT_OUT):
            continue
        text = path.read_text(encoding="utf-8")
        if "getattr(torch" not in text and not re.search("device_(module|mod|handle|attr)", text):
            continue
        holders = "|".join({_HOLDER, *_ASSIGNED.findall(text), *_PASSED.findall(text)})
        module = rf"(?:\b(?:{holders})|{_MADE})"
        by_text = rf"(?:get|has)attr\(\s*(?:\w+\.)*{module},\s*(?:\"(\w+)\"|(\w+))"
        for read in re.finditer(rf"{module}\.(\w+)(?!\w|\s*=[^=])|{by_text}", text):
            attribute, constant, variable = read.groups()
            name = attribute or constant
            if variable and (assigned := re.search(rf"\b{variable} = \"(\w+)\"", text)):
                name = assigned[1]
            if name:
                found[name].add(f"{file}:{text.count(chr(10), 0, read.start()) + 1}")
    return dict(found)
