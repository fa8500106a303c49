"""The site of the documentation: every link leads somewhere, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.guides import ROOT

LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    build = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {str(page.relative_to(tmp_path)): page.read_text("utf-8") for page in tmp_path.rglob("*.html")}
    assert "trustgraph-prompt extract" in pages["reference/command-line.html"]
    assert "finish_reason" in pages["reference/python/trustgraph_prompt.reader.html"]
    assert "repository/templates.html" in pages["how-to/write-a-prompt.html"]
    assert [found for text in pages.values() for found in LOADED.findall(text)] == []
