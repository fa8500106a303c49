"""Text in any encoding, and the headings of Markdown."""

from __future__ import annotations

import codecs

import pytest

from trustgraph_prompt.documents import convert
from trustgraph_prompt.errors import ConfigError

MARKDOWN = """---
title: no heading
---
# Rivers 🌊 #

```sh
# a comment
```

Asia
----
长江 flows.

- item
---
    # code

### C#
~~~
## no
```
## no
~~~~
## Europe
The Rhine.
"""


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
    def test_byte_order_mark_is_removed(self, encoding: str) -> None:
        document = convert("长江 🌊 Yangtze\r\n".encode(encoding), "a.txt")
        assert document.text == "长江 🌊 Yangtze\r\n"
        assert document.notes == ()

    def test_utf_16_may_be_big_endian(self) -> None:
        data = codecs.BOM_UTF16_BE + "长江 🌊".encode("utf-16-be")
        assert convert(data, "a.txt").text == "长江 🌊"

    @pytest.mark.parametrize(
        ("text", "encoding"),
        [
            ("café au lait", "cp1252"),
            ("Naïve “quotes” – and an œuvre of some length.", "cp1252"),
            ("Łódź leży nad Łódką, źródła są na wschodzie", "cp1250"),
            ("Привет, река Волга длинная.", "cp1251"),
            ("Привет, река Волга длинная.", "koi8_r"),
            ("日本の川は短い。信濃川が一番長い。", "cp932"),
            ("长江是中国最长的河流。黄河是第二长的河流。", "gb18030"),
            ("한국의 강은 한강이 유명하다", "cp949"),
            ("plain words\n" * 50_000 + "Fluß", "cp1252"),
        ],
    )
    def test_another_encoding_is_guessed_and_noted(self, text: str, encoding: str) -> None:
        document = convert(text.encode(encoding), "a.txt")
        assert document.text == text
        assert document.notes == (f"is not UTF-8; read as {encoding}",)

    def test_table_may_have_another_encoding(self) -> None:
        document = convert("Name;Länge\nRhein;1233\n".encode("cp1252"), "a.csv")
        assert document.text == "Name: Rhein\nLänge: 1233"
        assert document.notes == ("is not UTF-8; read as cp1252",)

    def test_incomplete_utf_16_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"a.txt: is not UTF-16 at byte 4"):
            convert(codecs.BOM_UTF16_LE + b"a\0b", "a.txt")


class TestMarkdown:
    def test_markdown_headings_outside_code_are_places(self) -> None:
        document = convert(MARKDOWN.encode(), "a.md")
        assert document.text == MARKDOWN
        assert [(MARKDOWN[place.start :].split("\n")[0], place.heading) for place in document.places] == [
            ("# Rivers 🌊 #", "Rivers 🌊"),
            ("Asia", "Rivers 🌊 > Asia"),
            ("### C#", "Rivers 🌊 > Asia > C#"),
            ("## Europe", "Rivers 🌊 > Europe"),
        ]
        assert document.place(MARKDOWN.index("长江")).heading == "Rivers 🌊 > Asia"
        assert document.place(0).heading is None

    def test_windows_line_ends_make_the_same_headings(self) -> None:
        headings = [place.heading for place in convert(MARKDOWN.encode(), "a.md").places]
        windows = convert(MARKDOWN.replace("\n", "\r\n").encode(), "a.md")
        assert [place.heading for place in windows.places] == headings
