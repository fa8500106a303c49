"""Checks the ZIP archives that Word, PowerPoint, Excel and EPUB files are, before a library unpacks them."""

from __future__ import annotations

import zipfile
from io import BytesIO
from typing import Final

from trustgraph_prompt.documents.document import MAX_BYTES
from trustgraph_prompt.errors import ConfigError

MAX_MEMBERS: Final = 20_000
MAX_NODES: Final = 3_000_000
"""Tags and attributes of the XML that readers hold in memory as a whole, in up to 1 GB."""

_DIRECTORY_ENTRY: Final = b"PK\1\2"
_STREAMED: Final = ("xl/worksheets/", "xl/sharedStrings.xml")
_PIECE: Final = 1024 * 1024


def members(data: bytes) -> set[str]:
    """Return the names of the files in an archive, after unpacking all: sizes may be lies.

    Raises `ConfigError` if it unpacks to too much, and `zipfile.BadZipFile` or `zlib.error` if it is damaged.
    """
    if data.count(_DIRECTORY_ENTRY) > MAX_MEMBERS:
        raise ConfigError(f"holds more than {MAX_MEMBERS:,} files")
    archive = zipfile.ZipFile(BytesIO(data))
    files = archive.infolist()
    if (size := sum(each.file_size for each in files)) > MAX_BYTES:
        raise ConfigError(f"unpacks to {size:,} bytes, more than {MAX_BYTES // 1024 // 1024} MiB; split it")
    nodes = 0
    for each in files:
        if each.flag_bits & 1:
            raise ConfigError("is encrypted; save it without a password")
        if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ConfigError(f"is compressed in a way that these files never are: {each.filename}")
        is_streamed = each.filename.startswith(_STREAMED)
        with archive.open(each) as file:
            while piece := file.read(_PIECE):
                nodes += 0 if is_streamed else piece.count(b"<") + piece.count(b"=")
        if nodes > MAX_NODES:
            raise ConfigError(f"holds more than {MAX_NODES:,} XML tags and attributes; split it")
    return set(archive.namelist())
