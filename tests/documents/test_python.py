"""Blocks of Python that documents show run as they stand, page by page."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

import pytest

from tests.documents.blocks import ALL, ROOT
from tests.support import kernels_run_on, run_python

PAGES = {
    document: [block.text for block in found]
    for document, found in groupby(
        (b for b in ALL if b.language == "python" and not b.relation and not b.origin),
        key=lambda block: block.document,
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page(document: Path, tmp_path: Path) -> None:
    code = "\n".join(PAGES[document])
    driver = "ocl" if "ocl" in code else os.environ.get("OUTBOARD_DRIVER", "host")
    if driver == "ocl" and not kernels_run_on("ocl"):
        pytest.skip("the driver `ocl` runs no kernels here")
    program = f"import os\nos.chdir({str(tmp_path)!r})\n{code}"
    run_python(program, OUTBOARD_DRIVER=driver, timeout=300)
