"""Code that documents show stands in files that tests run, or is checked by a test of its own."""

from __future__ import annotations

import textwrap

import pytest

from tests.documents.blocks import ALL, ROOT, Block, blocks

# What others than Python and the shell read is shown only where it is used.
QUOTED = ("c", "cpp", "cl", "opencl", "toml", "cmake")
# More would be code that nobody runs.
ILLUSTRATIONS = 4


def stands_in(text: str, file: str) -> bool:
    """Whether lines stand one after the other in a file, however deep."""
    wanted = text.strip("\n").split("\n")
    lines = file.split("\n")
    for i in range(len(lines) - len(wanted) + 1):
        part = textwrap.dedent("\n".join(lines[i : i + len(wanted)]))
        if [line.rstrip() for line in part.split("\n")] == [line.rstrip() for line in wanted]:
            return True
    return False


@pytest.mark.parametrize("block", ALL, ids=lambda block: block.name)
def test_a_block(block: Block) -> None:
    if block.relation == "checked by":
        assert block.document.name in (ROOT / block.origin).read_text()
    elif block.relation == "":
        if block.origin:
            assert stands_in(block.text, (ROOT / block.origin).read_text()), block.origin
        else:
            assert block.language not in QUOTED, "name the file that this stands in"


def test_illustrations_are_few() -> None:
    found = [block for block in ALL if block.relation == "illustration:"]
    assert all(len(block.origin) > 20 for block in found), "say why nobody can run it"
    assert len(found) <= ILLUSTRATIONS


def test_what_is_read_of_a_document(tmp_path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "# Page\n\n<!-- examples/digits.py -->\n```cpp\n  int x;\n  int y;\n```\n\n"
        "- item\n\n   <!-- checked by tests/test_demo.py -->\n   ````\n   ```\n   ````\n"
    )
    first, second = blocks(document)
    assert (first.language, first.text, first.origin) == (
        "cpp",
        "int x;\nint y;",
        "examples/digits.py",
    )
    assert (second.line, second.relation, second.text) == (12, "checked by", "```")
    assert stands_in("f();\n  g();", "{\n  f();\n    g();\n}")
    assert not stands_in("f();\ng();", "f();\n\ng();")
