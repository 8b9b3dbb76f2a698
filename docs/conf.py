"""The documentation as a site: ``sphinx-build -W -b html docs DIR``. Pages are Markdown; nothing is fetched."""

from __future__ import annotations

from replaycheck import __version__

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

autodoc_typehints = "signature"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = "replaycheck"
html_show_sourcelink = False
