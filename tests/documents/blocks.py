"""The blocks of code in documents, and what stands above them.

A line in front of a block says where its text comes from:

    <!-- examples/digits.py -->          it stands in this file
    <!-- checked by tests/test_demo.py -->       this test compares it with what it shows
    <!-- illustration: why -->           it is no code that anybody runs, for this reason
"""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])

_FENCE = re.compile(r"( *)(`{3,})([\w{}-]*)")
_ORIGIN = re.compile(r"<!-- (?:(checked by|illustration:) )?(.+?) -->")


@dataclass(frozen=True)
class Block:
    document: Path
    line: int  # of its first fence, from 1
    language: str  # "" for outputs
    text: str
    relation: str  # "", "checked by" or "illustration:"
    origin: str  # a path below ROOT or a reason; "" for none

    @property
    def name(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of a document, in order.

    Raises:
        AssertionError: if one does not end.
    """
    lines = document.read_text().splitlines()
    i = 0
    while i < len(lines):
        fence = _FENCE.fullmatch(lines[i])
        if fence is None:
            i += 1
            continue
        end = i + 1
        while end < len(lines) and lines[end].strip() != fence[2]:
            end += 1
        assert end < len(lines), f"{document}:{i + 1}: the block has no end"
        before = i - 1
        while before >= 0 and not lines[before].strip():
            before -= 1
        origin = _ORIGIN.fullmatch(lines[before].strip()) if before >= 0 else None
        yield Block(
            document,
            i + 1,
            fence[3],
            textwrap.dedent("\n".join(lines[i + 1 : end])),
            (origin[1] or "") if origin else "",
            origin[2] if origin else "",
        )
        i = end + 1


ALL = [block for document in DOCUMENTS for block in blocks(document)]
