"""How the documentation is built: ``make docs``."""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
sys.path.insert(0, str(Path(__file__).parent))

project = "Ulmus"
author = "The Ulmus developers"
copyright = "The Ulmus developers"
version = release = installed("ulmus")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
root_doc = "index"
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "results/*", "gallery/**/*.ipynb", "gallery/**/*.py", "gallery/sg_execution_times.rst"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
# scikit-learn's inherited docstrings refer to its own pages; pages that are included keep links of their own folder
suppress_warnings = ["config.cache", "ref.ref", "ref.term", "myst.xref_missing"]

autosummary_generate = True
autodoc_default_options = {"inherited-members": "BaseEstimator"}
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "Ulmus"
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "navbar_align": "left", "navigation_with_keys": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 10_000,
    "within_subsection_order": "FileNameSortKey",
}
