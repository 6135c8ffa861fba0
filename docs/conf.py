"""The site of the documents: `make docs` writes it to build/docs."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the package as it lies here

project = "torch_outboard"
author = "The torch_outboard developers"
release = version = importlib.metadata.version("torch-outboard")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
# Types that signatures name are PyTorch's, Python's, and of modules that have no page.
nitpick_ignore_regex = [("py:.*", ".*")]

# Outputs are not for copying.
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3
# Documents show outputs and dialects of C that no highlighter knows. Modules have names in common.
# Docstrings of PyTorch's functions refer to labels of its own site.
suppress_warnings = ["misc.highlighting_failure", "ref.python", "ref.ref"]

default_role = "code"  # docstrings have single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "torch_outboard"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
