"""The pages of the documentation, found by name in whichever folder they stand."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
KINDS: Final = ("tutorials", "how-to", "concepts", "reference")
GUIDES: Final = [page for kind in KINDS for page in sorted((DOCS / kind).glob("*.md"))]


def guide_page(name: str) -> Path:
    """The only page with this file name."""
    [page] = [page for page in GUIDES if page.name == name]
    return page
