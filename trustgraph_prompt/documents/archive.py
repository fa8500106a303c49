"""Checks the ZIP archives that Word, PowerPoint, Excel and EPUB files are, before a library unpacks them."""

from __future__ import annotations

import re
import zipfile
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Final

from trustgraph_prompt.documents.document import MAX_BYTES
from trustgraph_prompt.documents.text import is_like_ascii
from trustgraph_prompt.errors import ConfigError

MAX_MEMBERS: Final = 20_000
MAX_NODES: Final = 3_000_000
"""Tags and attributes of the XML that readers hold in memory as a whole, in up to 1 GB."""

_DIRECTORY_ENTRY: Final = b"PK\1\2"
_ENCODING: Final = re.compile(rb"<\?xml\s[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([!-~]{1,40}?)[\"']")
_UNICODE: Final = re.compile(r"utf-?(?:8|16(?:-?[lb]e)?)|(?:us-)?ascii", re.IGNORECASE)
_EBCDIC: Final = b"\x4c\x6f\xa7\x94"
_DECLARATION: Final = 400
"""First bytes of a file, which have the declaration of its encoding."""

_PIECE: Final = 1024 * 1024


def names(data: bytes) -> list[str]:
    """Return the names of the files in an archive.

    Raises `ConfigError` if there are too many, and `zipfile.BadZipFile` if it is damaged.
    """
    if data.count(_DIRECTORY_ENTRY) > MAX_MEMBERS:
        raise ConfigError(f"holds more than {MAX_MEMBERS:,} files")
    return zipfile.ZipFile(BytesIO(data)).namelist()


def check(data: bytes, streamed: tuple[str, ...]) -> None:
    """Unpack all files of an archive, as sizes may be lies.

    Tags in files whose names begin with one of `streamed` do not count. Raises `ConfigError` if it unpacks to
    too much, or is as no office program writes it, and `zipfile.BadZipFile` or `zlib.error` if it is damaged.
    """
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
        with archive.open(each) as file:
            _check_encoding(start := file.read(_DECLARATION))
            count = sum(map(_nodes, chain((start,), iter(partial(file.read, _PIECE), b""))))
        nodes += 0 if each.filename.startswith(streamed) else count
        if nodes > MAX_NODES:
            raise ConfigError(f"holds more than {MAX_NODES:,} XML tags and attributes; split it")


def _nodes(xml: bytes) -> int:
    return xml.count(b"<") + xml.count(b"=")


def _check_encoding(start: bytes) -> None:
    """Refuse XML in an encoding in which the byte of `<` is not all that begins a tag, such as UTF-7."""
    declared = _ENCODING.search(start)
    name = declared[1].decode("ascii") if declared else "utf-8"
    if start.startswith(_EBCDIC) or not (_UNICODE.fullmatch(name) or is_like_ascii(name)):
        raise ConfigError("has XML in an encoding that these files never have", found=name, expected="UTF-8")
