"""Links, and files that documents and comments of sources name, exist."""

import re
from functools import cache
from pathlib import Path

from tests.documents.blocks import DOCUMENTS, ROOT

FENCED = re.compile(r"^( *`{3,}).*?^\1 *$", re.M | re.S)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
PAGES = [*DOCUMENTS, ROOT / "CHANGELOG.md", *ROOT.glob("benchmarks/**/*.md")]
FOLDERS = "csrc|torch_outboard|tests|tools|benchmarks|examples|docs"
NAMED = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w./-]*\w\.(?:h|cpp|c|py|pyi|cl|md|json))\b")
BARE = re.compile(r"(?<![\w/.*<{}-])(\w+\.(?:h|cpp|c|py|pyi))\b(?!\w)")
COMMENT = re.compile(r"\s*(?://|\*|/\*|#(?!include))")
SOURCES = [
    path
    for folder in ("csrc", "torch_outboard", "tests", "benchmarks", "tools", "examples")
    for ending in ("h", "cpp", "c", "py", "cl")
    for path in ROOT.glob(f"{folder}/**/*.{ending}")
    if path.relative_to(ROOT).parts[:2] != ("torch_outboard", "include")
    # They name files of trees that they make themselves.
    and path.name not in ("test_structure.py", "test_compile_versions.py", "test_links.py")
]


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


def missing(path: Path, text: str) -> set[tuple[str, str]]:
    found = {name for name in NAMED.findall(text) if not (ROOT / name).exists()}
    return {(str(path.relative_to(ROOT)), name) for name in found}


def test_links() -> None:
    assert [(page.name, found) for page in PAGES if (found := dead(page))] == []


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


def test_files_that_are_named() -> None:
    names = {path.name for path in [*SOURCES, ROOT / "setup.py"]}
    found = set().union(*(missing(page, page.read_text()) for page in PAGES))
    for path in SOURCES:
        text = path.read_text()
        found |= missing(path, text)
        for line in filter(COMMENT.match, text.splitlines()):
            found |= {(path.name, name) for name in BARE.findall(line) if name not in names}
    assert found == set()


def test_what_is_missing_is_seen(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `two`, 3\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# A\n[x](b.md#one-two-3) [x](b.md#no-heading) [x](c.md) [x](#a) [x](#b)\n"
        "```text\n[x](gone.md)\n```\n[x](https://nowhere.example)\n"
    )
    assert dead(page) == ["b.md#no-heading", "c.md", "#b"]
    text = "// as in nowhere.h (see cpu_call.cpp, <vector.h> and a/b.h)"
    assert BARE.findall(text) == ["nowhere.h", "cpu_call.cpp"]
    text = "see `csrc/nowhere.h`, (docs/x.md) and /csrc/a.h"
    assert NAMED.findall(text) == ["csrc/nowhere.h", "docs/x.md"]
