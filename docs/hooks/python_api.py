"""Adds a page for each public module, with the signatures and docstrings of the names that api.md lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

INDEX: Final = "reference/api.md"
SECTION: Final = re.compile(r"^## `([\w.]+)`\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    index = Path(config.docs_dir, INDEX).read_text("utf-8")
    for module, text in SECTION.findall(index):
        names = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        content = "\n\n".join([f"# `{module}`", *(f"::: {module}.{name}" for name in names)])
        files.append(File.generated(config, address(module), content=content))
    return files


def address(module: str) -> str:
    return f"reference/python/{module}.md"


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead from the list of a module to its page."""
    if page.file.src_uri != INDEX:
        return markdown
    return SECTION.sub(
        lambda found: f"{found[0].rstrip()}\n\n[Signatures](python/{found[1]}.md)\n\n", markdown
    )
