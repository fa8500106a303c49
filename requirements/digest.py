"""Prints the digest of what the lock files are made of: their first line, so that a stale one is noticed."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
parts = {key: project[key] for key in ("requires-python", "dependencies", "optional-dependencies")}
parts |= {path.name: path.read_text() for path in Path("requirements").glob("*.in")}
digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
print("pyproject.toml and requirements/*.in", digest[:16])
