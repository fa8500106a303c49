"""Prints which wheel the image gets of each locked package, for both of its platforms: hashes do not tell.

`python requirements/wheels.py LOCK...` asks pip, which fails where there is no wheel.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

PYTHON = "3.13"
PLATFORMS = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
GLIBC_MINORS = range(5, 37)  # manylinux_2_5 to manylinux_2_36


def wheels(lock: str, machine: str) -> list[str]:
    """The file name and the hash of each wheel that pip would install."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += ["--ignore-installed", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command += ["--report", "-", "--target", "nowhere", "--implementation", "cp", "--python-version", PYTHON]
    for minor in GLIBC_MINORS:
        command += ["--platform", f"manylinux_2_{minor}_{machine}"]
    command += ["--platform", f"manylinux2014_{machine}", "--requirement", lock]
    found = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    downloads = [package["download_info"] for package in json.loads(found.stdout)["install"]]
    return [
        f"{download['url'].rpartition('/')[2]} sha256:{download['archive_info']['hashes']['sha256']}"
        for download in downloads
    ]


locks = sys.argv[1:]
for lock in locks:
    print(f"# {Path(lock).name} {hashlib.sha256(Path(lock).read_bytes()).hexdigest()[:16]}")
for platform, machine in PLATFORMS.items():
    for line in sorted({line for lock in locks for line in wheels(lock, machine)}):
        print(platform, line)
