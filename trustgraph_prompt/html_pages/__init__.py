"""What the HTML pages have in common: how they look, and how their policy names what they may run."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

LOOK: Final = Path(__file__).parent / "page.css"


def environment(folder: Path, finalize: Callable[[Any], Any] | None = None) -> Environment:
    """The templates in a folder. They escape every value, and need each one that they name."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=finalize,
    )


def style(own: Path) -> Markup:
    """The style of all pages, followed by a page's own."""
    return Markup(LOOK.read_text("utf-8") + own.read_text("utf-8"))


def allowed(source: str) -> str:
    """How a Content-Security-Policy names a style or script that stands in the page."""
    return f"'sha256-{b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
