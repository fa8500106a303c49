"""Decodes text: UTF-8 first, then what a byte order mark says, then what the characters look like."""

from __future__ import annotations

import codecs
import re
from typing import Final

from trustgraph_prompt.errors import ConfigError

_MARKS: Final = {  # UTF-32 first: its mark begins with that of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SAMPLE: Final = 256 * 1024
"""Bytes from which an encoding is guessed."""

_LIKELY: Final = [
    *("cp1252", "cp1250", "cp1251", "koi8_r", "cp1253", "gb18030", "cp949", "big5", "cp932", "euc_jp"),
    *("cp1254", "cp1255", "cp1256"),
]
"""Those of the web, the likeliest first: of all encodings, some strange one always fits a short text."""

_DECLARED = re.compile(rb"(?:charset|encoding)\s{0,9}=\s{0,9}[\"']?([\w-]{1,40})", re.ASCII)
_LEGACY = re.compile(r"(iso-?8859|latin|windows|cp|koi8|gb|big5|shift|euc|mac)", re.IGNORECASE)
"""Encodings that a page may declare. Others that Python has are no character sets."""

_BEYOND_ASCII: Final = bytes(range(128, 256))


def decode(data: bytes, where: str) -> str:
    """Decode UTF-8 and drop a byte order mark. Raises `ConfigError`, which names PDF and binary data."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(data, where, error.start) from error


def decode_any(data: bytes, where: str) -> tuple[str, tuple[str, ...]]:
    """Decode text in any encoding; return it with a note if the encoding had to be guessed.

    Guessing needs the extra `documents`. Raises `ConfigError` for binary data and unknown encodings.
    """
    for mark, encoding in _MARKS.items():
        if data.startswith(mark):
            try:
                return data.decode(encoding), ()
            except UnicodeDecodeError as error:
                raise ConfigError(f"is not {encoding.upper()} at byte {error.start}", where=where) from error
    if b"\0" in data:
        raise _not_text(data, where, 0)
    try:
        return data.decode("utf-8-sig"), ()
    except UnicodeDecodeError as error:
        if guessed := _guessed(data, error.start):
            try:
                return data.decode(guessed), (f"is not UTF-8; read as {guessed}",)
            except UnicodeDecodeError:
                pass
        raise _not_text(data, where, error.start) from error


def decode_page(data: bytes) -> str:
    """Decode HTML or XHTML, with the encoding that it declares if it is not UTF-8."""
    declared = _DECLARED.search(data, 0, 2048)
    if declared and not data.startswith(tuple(_MARKS)) and b"\0" not in data:
        name = declared[1].decode("ascii")
        for encoding in ("utf-8-sig", name if is_like_ascii(name) else "utf-8"):
            try:
                return data.decode(encoding)
            except UnicodeDecodeError:
                continue
    return decode_any(data, "")[0]


def is_like_ascii(encoding: str) -> bool:
    """Whether an encoding that a page may declare has `<` where ASCII has it, and nowhere else."""
    if not _LEGACY.match(encoding):
        return False
    try:
        return b"<".decode(encoding) == "<" and "<" not in _BEYOND_ASCII.decode(encoding, "ignore")
    except LookupError:
        return False


def binary_kind(data: bytes) -> str | None:
    """Return what data is that is not text, as far as its bytes show it: `a PDF`, `a binary file` or None."""
    if data.startswith(b"%PDF-"):
        return "a PDF"
    return "a binary file" if b"\0" in data else None


def _guessed(data: bytes, first: int) -> str | None:
    """The likely encoding of data with its first bytes beyond ASCII at `first`; None without the extra."""
    try:
        from charset_normalizer import from_bytes
    except ModuleNotFoundError:
        return None
    start = max(0, first - _SAMPLE // 2)
    found = from_bytes(data[start : start + _SAMPLE], cp_isolation=_LIKELY)
    fitting = [
        (match.chaos, -match.coherence, _LIKELY.index(encoding))
        for match in found
        for encoding in match.could_be_from_charset
    ]
    return _LIKELY[min(fitting)[-1]] if fitting else None


def _not_text(data: bytes, where: str, start: int) -> ConfigError:
    """The error for data that is not UTF-8 text, which stops being so at byte `start`."""
    if kind := binary_kind(data):
        convert = "; convert it to text first" if kind == "a PDF" else ""
        message, found = f"is {kind}{convert}", data[:16]
    else:
        message, found = f"is not UTF-8 at byte {start}", data[start : start + 8]
    return ConfigError(message, where=where, found=found, expected="text in UTF-8")
