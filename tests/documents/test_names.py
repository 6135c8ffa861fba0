"""What the documents and the comments of sources name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = "csrc|torch_outboard|tests|tools|benchmarks|examples|docs"
NAMED = re.compile(rf"(?<![\w/.])((?:{FOLDERS})/[\w./-]*\w\.(?:h|cpp|c|py|pyi|cl|md|json))\b")
BARE = re.compile(r"(?<![\w/.*<{}-])(\w+\.(?:h|cpp|c|py|pyi))\b(?!\w)")
COMMENT = re.compile(r"\s*(?://|\*|/\*|#(?!include))")
DOCUMENTS = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
SOURCES = [
    path
    for folder in ("csrc", "torch_outboard", "tests", "benchmarks", "tools", "examples")
    for ending in ("h", "cpp", "c", "py", "cl")
    for path in ROOT.glob(f"{folder}/**/*.{ending}")
    if path.relative_to(ROOT).parts[:2] != ("torch_outboard", "include")
    # They name files of trees that they make themselves.
    and path.name not in ("test_structure.py", "test_compile_versions.py", "test_names.py")
]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_documents_name(path):
    text = path.read_text()
    missing = {name for name in NAMED.findall(text) if not (ROOT / name).exists()}
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        if not (path.parent / target).exists():
            missing.add(target)
    assert missing == set()


def test_files_that_sources_name():
    missing = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in NAMED.findall(path.read_text())
        if not (ROOT / name).exists()
    }
    assert missing == set()


def test_files_that_comments_name_without_their_folders():
    names = {path.name for path in [*SOURCES, ROOT / "setup.py"]}
    missing = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for line in path.read_text().splitlines()
        if COMMENT.match(line)
        for name in BARE.findall(line)
        if name not in names
    }
    assert missing == set()


def test_a_missing_file_is_seen():
    assert BARE.findall("// as in nowhere.h (see cpu_call.cpp, <vector.h> and a/b.h)") == [
        "nowhere.h",
        "cpu_call.cpp",
    ]

    assert NAMED.findall("see `csrc/nowhere.h`, (docs/x.md) and /csrc/a.h") == [
        "csrc/nowhere.h",
        "docs/x.md",
    ]
