"""What the package offers, and that it is cheap to look."""

from __future__ import annotations

import subprocess
import sys

import trustgraph_prompt


def test_every_public_name_is_there() -> None:
    for name in trustgraph_prompt.__all__:
        assert getattr(trustgraph_prompt, name).__name__ == name


def test_importing_the_package_imports_no_heavy_library() -> None:
    code = "import sys, trustgraph_prompt; print(sorted(sys.modules))"

    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    for heavy in ("jsonschema", "jinja2", "aiohttp", "pulsar", "typer"):
        assert f"'{heavy}'" not in modules
