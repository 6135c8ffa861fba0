"""Kernels in docs/kernels.md are short and run alone, and the page names every statement and
field of definitions."""

from __future__ import annotations

import inspect
import re

import pytest

from tests.device_kernels.processes import run_program
from tests.documents.blocks import ROOT, blocks
from torch_outboard.ops.template import Plan, template

PAGE = ROOT / "docs" / "kernels.md"
IMPORTS = "import torch\nimport torch_outboard\n"
LINES = {"Pointwise": 10, "Reduction": 20, "Gather": 40, "Normalization": 60}


def shown(family: str) -> str:
    """The block below a heading."""
    lines = PAGE.read_text().splitlines()
    heading = lines.index(f"### {family}") + 1
    return next(
        block.text
        for block in blocks(PAGE)
        if block.line > heading and block.language == "python" and not block.origin
    )


def test_every_operator_is_short() -> None:
    headings = re.findall(r"^### (.+)$", PAGE.read_text(), re.M)
    assert headings[: len(LINES)] == list(LINES)
    for family, most in LINES.items():
        block = shown(family)
        assert len([line for line in block.splitlines() if line.strip()]) <= most, family
        # An operator of one's own, by device kernels, and compared with the CPU.
        for part in ("torch.library.define(", "torch_outboard.kernel(", '.to("ocl")', ".cpu()"):
            assert part in block, (family, part)


@pytest.mark.parametrize("family", LINES)
def test_an_operator_runs(family: str) -> None:
    block = shown(family)
    code = block if block.startswith(IMPORTS) else IMPORTS + block
    run_program(code, OUTBOARD_DRIVER="ocl", timeout=300)


def test_every_statement_and_field_is_described() -> None:
    page = PAGE.read_text()
    public = {name for name in vars(Plan) if not name.startswith("_")} - {"properties", "trace"}
    methods = {name for name in public if inspect.isfunction(vars(Plan)[name])}
    assert {"require", "result", "launch"} <= methods
    assert [name for name in methods if f"`plan.{name}(" not in page] == []
    assert [name for name in public - methods if f"`plan.{name}`" not in page] == []
    for function, known in (
        (template, ("overloads", "kernels", "source", "properties")),
        (Plan.result, ("self", "name")),
        (Plan.temporary, ("self", "name")),
        (Plan.launch, ("self", "kernel", "items", "groups")),
    ):
        named = [name for name in inspect.signature(function).parameters if name not in known]
        assert [name for name in named if not re.search(rf"\b{name}\b", page)] == []
