"""How the documentation is built: ``make docs``."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Ulmus"
author = "The Ulmus developers"
copyright = "The Ulmus developers"
version = release = installed("ulmus")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",  # of ours: formulas need no network
]
root_doc = "index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "results/*", "gallery/**/*.ipynb", "gallery/**/*.py"]
templates_path = ["_templates"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
# scikit-learn's inherited docstrings refer to its own pages
suppress_warnings = ["config.cache", "ref.ref", "ref.term"]

autosummary_generate = True
autodoc_typehints = "none"  # docstrings say what parameters are
toc_object_entries_show_parents = "hide"
autodoc_default_options = {"inherited-members": "BaseEstimator"}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Ulmus"
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["ulmus.css"]
html_favicon = "_static/leaf.svg"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "logo": {"text": "Ulmus", "image_light": "_static/leaf.svg", "image_dark": "_static/leaf.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "show_prev_next": True,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
html_sidebars = {"index": []}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}


def setup(app: Sphinx) -> None:
    """In a clone measurements and examples are files beside documents that read as plain Markdown; here, pages."""

    def lead_to_the_page(app: Sphinx, docname: str, source: list[str]) -> None:
        source[0] = source[0].replace("](../experiments/RESULTS.md", "](results.md")
        source[0] = source[0].replace("[the examples](../examples/README.rst)", "{doc}`the examples <gallery/index>`")
        if docname == "start":
            source[0] += "\n```{toctree}\n:hidden:\n\nchoose\nmigrate\n```\n"

    app.connect("source-read", lead_to_the_page)
