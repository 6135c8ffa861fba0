"""The check of the structure of the sources sees each fault, and none here."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "check_structure.py"
_spec = importlib.util.spec_from_file_location("check_structure", TOOL)
assert _spec is not None
assert _spec.loader is not None
check_structure = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(check_structure)

Findings = Callable[[dict[str, str]], list[str]]


@pytest.fixture
def findings(tmp_path, monkeypatch) -> Findings:
    """The check's findings in a tree of these files; each folder of Python is a package."""
    monkeypatch.setattr(check_structure, "LAYERS", (("include",), ("runtime",), ("tensors",)))

    def find(texts: dict[str, str]) -> list[str]:
        for name, text in {"torch_outboard/__init__.py": "", **texts}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".py"):
                (path.parent / "__init__.py").touch()
        return check_structure.findings(tmp_path)

    return find


def test_a_tree_without_faults(findings):
    assert findings({
        "torch_outboard/top.py": "from torch_outboard import _C, leaf\nimport torch_outboard.a.b",
        "torch_outboard/a/b.py": "from torch_outboard import leaf\nfrom . import c",
        "torch_outboard/a/c.py": "import os.path",
        "torch_outboard/leaf.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from torch_outboard import top\n"
        ),
        "torch_outboard/_C.pyi": "",
        "csrc/tensors/a.cpp": '#include "runtime/b.h"\n#include "a.h"\n#include <cstdlib>\n',
        "csrc/tensors/a.h": '#include "version.h"\n// std::stod("1.5")\n',
        "csrc/runtime/b.h": 'int n = std::sscanf(text, "OpenCL %d.%d", &a, &b);\n',
        "csrc/version.h": '#include "tensors/a.h"\nauto x = my_stod(1), y = strtod_l(text, 0, c);',
    }) == []  # fmt: skip


BACK = (
    "from torch_outboard import a",
    "import torch_outboard.a",
    "from torch_outboard.a import thing",
    "from . import a",
    "from .a import thing",
    "def f():\n    from torch_outboard import a",
    "import importlib\nimportlib.import_module('torch_outboard.a')",
    "if TYPE_CHECKING:\n    pass\nelse:\n    from torch_outboard import a",
)


def test_modules_that_import_each_other(findings):
    for back in BACK:
        (found,) = findings({
            "torch_outboard/a.py": "from torch_outboard import b",
            "torch_outboard/b.py": back,
        })  # fmt: skip
        one = "torch_outboard.a imports torch_outboard.b, which imports torch_outboard.a."
        other = "torch_outboard.b imports torch_outboard.a, which imports torch_outboard.b."
        assert found.removeprefix("Imports go in a circle: ") in (one, other), back


# A tree, and how its findings begin.
FAULTS = (
    (
        {
            "torch_outboard/a.py": "from torch_outboard import b",
            "torch_outboard/b.py": "from torch_outboard import c",
            "torch_outboard/c.py": "from torch_outboard import a, d",
            "torch_outboard/d.py": "import torch_outboard.e",
            "torch_outboard/e.py": "import torch_outboard.d",
        },
        ["Imports go in a circle: "] * 2,
    ),
    (  # folders that import each other, though none of their modules do
        {
            "torch_outboard/a/one.py": "import torch_outboard.b.one",
            "torch_outboard/a/two.py": "",
            "torch_outboard/b/one.py": "",
            "torch_outboard/b/two.py": "import torch_outboard.a.two",
        },
        ["Imports go in a circle: "],
    ),
    (
        {
            "csrc/runtime/b.cpp": '#include "tensors/a.h"\n#include "../tensors/a.h"\n',
            "csrc/tensors/a.h": "",
        },
        [
            f"csrc/runtime/b.cpp:{line} includes tensors/a.h, which is in a layer above its own."
            for line in (1, 2)
        ],
    ),
    (
        {
            "torch_outboard/drivers/host/a.cpp": "/* a\n comment */ std::stod(text);\n"
            'x = stof (text);\nstrtod(text, &end);\nstd::atof(text);\nsscanf(text, "%d %lf", &n);'
        },
        [
            f"torch_outboard/drivers/host/a.cpp:{line} parses a number by {parser}, whose answer"
            for line, parser in enumerate(("stod", "stof", "strtod", "atof", "sscanf"), 2)
        ],
    ),
    (
        {"torch_outboard/kernels/losses/rows.cl": "", "torch_outboard/kernels/rows.cl": ""},
        ["torch_outboard/kernels/losses/rows.cl and torch_outboard/kernels/rows.cl have one name"],
    ),
    ({"csrc/rooms/a.h": ""}, ["csrc/rooms is in no layer: add it to LAYERS.\n"]),
)


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_faults_are_found(findings, tmp_path, capsys, number):
    tree, beginnings = FAULTS[number]
    findings(tree)
    assert check_structure.main(["--root", str(tmp_path)]) == 1
    found = capsys.readouterr().out.splitlines(keepends=True)
    for line, beginning in zip(found, beginnings, strict=True):
        assert line.startswith(beginning)
