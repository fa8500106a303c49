"""Prints what the package and some of its extras need: `python requirements/extras.py EXTRA...`."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *(need for extra in sys.argv[1:] for need in extras[extra]), sep="\n")
