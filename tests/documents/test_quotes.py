"""Code that documents show stands in files that tests run, is checked by a test, or runs here."""

import os
import textwrap
from itertools import groupby
from pathlib import Path

import pytest

from tests.documents.blocks import ALL, ROOT, Block, blocks
from tests.support import kernels_run_on, run_python

# Code for others than Python and the shell is shown only with its use.
QUOTED = ("c", "cpp", "cl", "opencl", "toml", "cmake")
# More would be code that is never run.
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


def problem(block: Block) -> str | None:
    if block.relation == "checked by":
        if block.document.name not in (ROOT / block.origin).read_text():
            return f"{block.origin} does not name the document"
    elif block.relation == "":
        if not block.origin and block.language in QUOTED:
            return "name the file that this stands in"
        if block.origin and not stands_in(block.text, (ROOT / block.origin).read_text()):
            return f"this does not stand in {block.origin}"
    return None


def test_where_blocks_stand() -> None:
    assert [(block.name, found) for block in ALL if (found := problem(block))] == []
    illustrations = [block for block in ALL if block.relation == "illustration:"]
    assert all(len(block.origin) > 20 for block in illustrations), "say why it cannot be run"
    assert len(illustrations) <= ILLUSTRATIONS


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


PAGES = {
    document: [block.text for block in found]
    for document, found in groupby(
        (b for b in ALL if b.language == "python" and not b.relation and not b.origin),
        key=lambda block: block.document,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_python_of_a_page(document: Path, tmp_path: Path) -> None:
    code = "\n".join(PAGES[document])
    driver = "ocl" if "ocl" in code else os.environ.get("OUTBOARD_DRIVER", "host")
    if driver == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("the driver `ocl` runs no kernels here")
    program = f"import os\nos.chdir({str(tmp_path)!r})\n{code}"
    run_python(program, OUTBOARD_DRIVER=driver, timeout=300)
