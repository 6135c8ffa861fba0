"""Links between documents lead to files and headings that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.documents.blocks import DOCUMENTS, ROOT

FENCED = re.compile(r"^( *`{3,}).*?^\1 *$", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
NAMED = [*DOCUMENTS, ROOT / "CHANGELOG.md", *ROOT.glob("benchmarks/**/*.md")]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text.strip()).replace(" ", "-")


@cache
def anchors(document: Path) -> set[str]:
    text = FENCED.sub("", document.read_text())
    return {slug(heading) for heading in re.findall(r"^#+ (.+?)#*$", text, re.M)}


def dead(document: Path) -> list[str]:
    found = []
    for target, anchor in LINK.findall(FENCED.sub("", document.read_text())):
        path = (document.parent / target).resolve() if target else document
        if not path.exists():
            found.append(target)
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            found.append(f"{target}#{anchor}")
    return found


@pytest.mark.parametrize("document", NAMED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(document: Path) -> None:
    assert dead(document) == []


def test_every_document_is_in_the_site() -> None:
    """A page that no list of contents names is not found."""
    docs = ROOT / "docs"
    named = {docs / "index.md"}
    for page in docs.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.M | re.S):
            for line in block.splitlines():
                if re.fullmatch(r"[\w/*]+", line):
                    named |= set(page.parent.glob(f"{line}.md"))
    assert set(docs.rglob("*.md")) == named


def test_what_is_no_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `two`, 3\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# A\n[x](b.md#one-two-3) [x](b.md#no-heading) [x](c.md) [x](#a) [x](#b)\n"
        "```text\n[x](gone.md)\n```\n[x](https://nowhere.example)\n"
    )
    assert dead(page) == ["b.md#no-heading", "c.md", "#b"]
