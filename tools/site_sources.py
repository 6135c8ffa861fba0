"""Prepares the sources of the Sphinx site: the documents, and a page for each file they link to.

    python tools/site_sources.py build/docs-source

A link of a document to a file or folder of the project leads to a page that shows it, and the theme
of the site chooses among pictures for light and dark pages; the documents themselves do not change.
Exit status 1 for a broken link.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# The folder of pages for files outside of docs/.
PROJECT = "project"
PICTURE = re.compile(r'<picture>.*?alt="([^"]*)" src="([^"]*)-light.svg">\n</picture>', re.S)
LINK = re.compile(r"(?<!!)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")
FENCED = re.compile(r"^( *`{3,}).*?^\1 *$", re.M | re.S)
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".c": "c", ".cl": "c", ".py": "python", ".sh": "bash"}
# Files of builds between the sources.
MADE = ("__pycache__", ".so", ".pyc", "pocl_compiler")


class Site:
    """Pages by their files in the project, made on request."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.pages: dict[Path, Path] = {}
        self.dead: list[str] = []

    def page(self, file: Path) -> Path:
        """The path of the page of a file or folder of the project, made at the first call."""
        if file in self.pages:
            return self.pages[file]
        if file.is_relative_to(DOCS):
            page = self.output / file.relative_to(DOCS)
        else:
            name = file.relative_to(ROOT).as_posix()
            page = self.output / PROJECT / (name if file.suffix == ".md" else f"{name}.md")
        self.pages[file] = page
        if file.suffix == ".md":
            text = self.document(file, page)
            if not file.is_relative_to(DOCS):
                text = f"---\norphan: true\n---\n{text}"
        else:
            text = self.folder(file, page) if file.is_dir() else self.source(file, page)
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text)
        return page

    def document(self, file: Path, page: Path) -> str:
        """Its text, with links to pages."""

        def linked(match: re.Match[str]) -> str:
            target = (file.parent / match[1]).resolve()
            if not target.exists() or not target.is_relative_to(ROOT):
                self.dead.append(f"{file.relative_to(ROOT)} links to {match[1]}")
                return match[0]
            return f"]({os.path.relpath(self.page(target), page.parent)}{match[2] or ''})"

        def themed(match: re.Match[str]) -> str:
            stem = os.path.relpath(self.output / "static" / Path(match[2]).name, page.parent)
            return "\n".join(
                f"```{{image}} {stem}-{theme}.svg\n:alt: {match[1]}\n:class: only-{theme}\n```"
                for theme in ("light", "dark")
            )

        parts, at = [], 0
        text = PICTURE.sub(themed, file.read_text())
        for block in FENCED.finditer(text):
            parts += [LINK.sub(linked, text[at : block.start()]), block[0]]
            at = block.end()
        return "".join([*parts, LINK.sub(linked, text[at:])])

    def source(self, file: Path, page: Path) -> str:
        """The whole file; Sphinx takes its path from the page."""
        language = LANGUAGES.get(file.suffix, "text")
        path = os.path.relpath(file, page.parent)
        shown = f"```{{literalinclude}} {path}\n:language: {language}\n```\n"
        where = f"In `{file.parent.relative_to(ROOT)}/`:"
        return f"---\norphan: true\n---\n# {file.name}\n\n{where}\n\n{shown}"

    def folder(self, folder: Path, page: Path) -> str:
        """The entries of a folder, each with its page."""
        lines = [f"---\norphan: true\n---\n# {folder.relative_to(ROOT)}/\n"]
        for path in sorted(folder.iterdir()):
            if path.name.endswith(MADE) or path.name.startswith("."):
                continue
            link = os.path.relpath(self.page(path), page.parent)
            lines.append(f"- [{path.name}{'/' if path.is_dir() else ''}]({link})")
        return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    output = parser.parse_args(arguments).output.resolve()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    shutil.copytree(DOCS / "static", output / "static")
    site = Site(output)
    for document in sorted(DOCS.rglob("*.md")):
        site.page(document)
    for sentence in site.dead:
        print(f"{sentence}, which does not exist", file=sys.stderr)
    return 1 if site.dead else 0


if __name__ == "__main__":
    sys.exit(main())
