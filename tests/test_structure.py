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
    """What the check finds in a tree of these files; each folder of Python is a package."""
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


def test_no_fault_here(capsys):
    assert check_structure.main([]) == 0
    assert capsys.readouterr().out == "No fault in the structure of the sources.\n"


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


@pytest.mark.parametrize(
    "back",
    [
        "from torch_outboard import a",
        "import torch_outboard.a",
        "from torch_outboard.a import thing",
        "from . import a",
        "from .a import thing",
        "def f():\n    from torch_outboard import a",
        "import importlib\nimportlib.import_module('torch_outboard.a')",
        "if TYPE_CHECKING:\n    pass\nelse:\n    from torch_outboard import a",
    ],
)
def test_modules_that_import_each_other(findings, back):
    (found,) = findings({
        "torch_outboard/a.py": "from torch_outboard import b",
        "torch_outboard/b.py": back,
    })  # fmt: skip
    assert found in (
        "Imports go in a circle: torch_outboard.a imports torch_outboard.b, "
        "which imports torch_outboard.a.",
        "Imports go in a circle: torch_outboard.b imports torch_outboard.a, "
        "which imports torch_outboard.b.",
    )


def test_every_circle_is_found(findings):
    found = findings({
        "torch_outboard/a.py": "from torch_outboard import b",
        "torch_outboard/b.py": "from torch_outboard import c",
        "torch_outboard/c.py": "from torch_outboard import a, d",
        "torch_outboard/d.py": "import torch_outboard.e",
        "torch_outboard/e.py": "import torch_outboard.d",
    })  # fmt: skip
    assert len(found) == 2
    assert {line.count(" imports ") for line in found} == {2, 3}


def test_folders_that_import_each_other(findings):
    """Though none of their modules do."""
    (found,) = findings({
        "torch_outboard/a/one.py": "import torch_outboard.b.one",
        "torch_outboard/a/two.py": "",
        "torch_outboard/b/one.py": "",
        "torch_outboard/b/two.py": "import torch_outboard.a.two",
    })  # fmt: skip
    assert "torch_outboard.b (in torch_outboard.a.one)" in found
    assert "torch_outboard.a (in torch_outboard.b.two)" in found


def test_a_module_that_imports_the_package(findings):
    (found,) = findings({
        "torch_outboard/__init__.py": "from torch_outboard import a",
        "torch_outboard/a.py": "def f():\n    import torch_outboard",
    })  # fmt: skip
    assert "torch_outboard.__init__" in found


@pytest.mark.parametrize("folder", ["csrc", "csrc/runtime/pool", "torch_outboard/kernels/losses"])
def test_a_folder_with_too_many_files(findings, folder):
    most = {f"{folder}/file{n}.cl": "" for n in range(check_structure.MOST_FILES)}
    assert findings({**most, f"{folder}/notes.txt": "", f"{folder}/__init__.py": ""}) == []
    assert findings({f"{folder}/one.c": ""}) == [
        f"{folder} has 16 source files, and 15 are the most: split it."
    ]


@pytest.mark.parametrize("include", ["tensors/a.h", "../tensors/a.h"])
def test_an_include_that_points_up(findings, include):
    found = findings({
        "csrc/runtime/b.cpp": f'#include <vector>\n#include "{include}"\n',
        "csrc/tensors/a.h": "",
    })  # fmt: skip
    assert found == [
        "csrc/runtime/b.cpp:2 includes tensors/a.h, which is in a layer above its own."
    ]


def test_a_folder_in_no_layer(findings):
    assert findings({"csrc/rooms/a.h": ""}) == ["csrc/rooms is in no layer: add it to LAYERS."]


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("stod", "std::stod(text)"),
        ("stof", "x = stof (text)"),
        ("strtod", "strtod(text, &end)"),
        ("atof", "std::atof(text)"),
        ("sscanf", 'sscanf(text, "%d %lf", &n, &x)'),
    ],
)
@pytest.mark.parametrize("folder", ["csrc/runtime", "torch_outboard/drivers/host"])
def test_a_parser_that_asks_the_locale(findings, parser, text, folder):
    (found,) = findings({f"{folder}/a.cpp": f"/* a\n comment */ {text};\n"})
    assert found.startswith(f"{folder}/a.cpp:2 parses a number by {parser}, whose answer depends")


def test_kernels_of_one_name(findings):
    (found,) = findings({
        "torch_outboard/kernels/losses/rows.cl": "",
        "torch_outboard/kernels/rows.cl": "",
    })  # fmt: skip
    assert found.startswith(
        "torch_outboard/kernels/losses/rows.cl and torch_outboard/kernels/rows.cl have one name"
    )


def test_the_exit_status_tells(findings, tmp_path, capsys):
    findings({"csrc/rooms/a.h": ""})
    assert check_structure.main(["--root", str(tmp_path)]) == 1
    assert capsys.readouterr().out == "csrc/rooms is in no layer: add it to LAYERS.\n"
