"""The documentation as a site: ``sphinx-build -W -b html docs DIR``. Pages are Markdown; nothing is fetched.

Two hooks: generated parts are put into the pages as they are read, and docstrings, which are written to be read in the
code, are made safe for reStructuredText.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "kernels"), str(ROOT / "docs")]

from generated import filled  # noqa: E402

from replaycheck import __version__  # noqa: E402

project = "replaycheck"
author = "the replaycheck authors"
copyright = "the replaycheck authors, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_click"]
source_suffix = {".md": "markdown"}
root_doc = "index"
exclude_patterns = ["_build"]
nitpicky = False  # types of torch and numpy have no inventory offline

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
smartquotes = False  # it would make an en dash of the two hyphens before an option

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
napoleon_use_ivar = True

html_theme = "furo"
html_title = "replaycheck"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["site.css"]


def _fill(app: Any, name: str, source: list[str]) -> None:
    source[0] = filled(source[0])


def _escape(app: Any, what: str, name: str, documented: Any, options: Any, lines: list[str]) -> None:
    lines[:] = [_escaped(line) for line in lines]


def _escaped(line: str) -> str:
    """The line with ``|`` and ``*`` escaped outside of literals."""
    pieces = re.split(r"(``.*?``|`[^`]*`)", line)
    return "".join(piece if at % 2 else re.sub(r"([|*])", r"\\\1", piece) for at, piece in enumerate(pieces))


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _fill)
    app.connect("autodoc-process-docstring", _escape)
