"""Certificates of an authority that nobody knows, made with the openssl program."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


class Authority:
    """A certificate authority in `directory`; `file` is its certificate, `hashed` a directory of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.file = directory / "ca.pem"
        self.hashed = directory / "hashed"
        usage = "keyUsage=critical,keyCertSign,cRLSign"
        self._openssl(
            *("req", "-x509", *_KEY, "-days", "2", "-subj", "/CN=Nobody", "-addext", usage),
            *("-keyout", "ca.key", "-out", "ca.pem"),
        )
        self.hashed.mkdir()
        (self.hashed / "ca.pem").write_bytes(self.file.read_bytes())
        self._openssl("rehash", str(self.hashed))

    def server(self, names: str) -> ssl.SSLContext:
        """What a server of these names (`DNS:…`, `IP:…`) needs to be believed."""
        certificate, key = self.issue("server", names)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        return context

    def issue(self, name: str, names: str) -> tuple[Path, Path]:
        """A certificate for these names, and its key."""
        (self._directory / "extensions").write_text(
            f"subjectAltName={names}\nauthorityKeyIdentifier=keyid\nbasicConstraints=CA:FALSE\n"
        )
        key, certificate = self._directory / f"{name}.key", self._directory / f"{name}.pem"
        self._openssl("req", *_KEY, "-subj", f"/CN={name}", "-keyout", str(key), "-out", "request.csr")
        self._openssl(
            *("x509", "-req", "-in", "request.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"),
            *("-days", "2", "-extfile", "extensions", "-out", str(certificate)),
        )
        return certificate, key

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=self._directory, check=True, capture_output=True)
