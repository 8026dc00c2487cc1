"""How Sphinx builds these pages: from the checkout alone, with every dead reference an error."""

from __future__ import annotations

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "jupyter_smx"
author = "the jupyter_smx contributors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = version_of("jupyter-smx")

extensions = ["myst_parser", "sphinx.ext.autodoc", "smx_reference"]
exclude_patterns = ["_ext"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = False
python_maximum_signature_line_length = 80
nitpicky = True
# Names of other projects have no pages here, and no inventory of theirs is fetched.
# Type variables are no classes that a page could describe.
# Types of keywords stand in signatures, and have no page either.
nitpick_ignore_regex = [
    (r"py:.*", r"(?!jupyter_smx\.).*"),
    (r"py:class", r".*\._[A-Z]\w+"),
    (r"py:class", r"jupyter_smx\.model\.options\..*"),
]

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["smx.css"]
html_title = "jupyter_smx"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
