"""Runs that were begun with the first splitter are resumed with its chunks."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from trustgraph_prompt.documents import first_splitter

TEXTS = st.text(alphabet="ab. \n!?\t\r\u2019\u2014", max_size=400)


def split(text: str, size: int = 100) -> list[str]:
    return list(first_splitter.split(text, size))


def test_it_cuts_where_it_did() -> None:
    first = f'He said "{"x" * 60}." '
    assert split("one\r\n\r\ntwo\n \t\n\n\nthree", 9) == ["one\n\ntwo", "three"]
    assert split(f"{'a' * 60}\n\n{'b' * 60}") == ["a" * 60, "b" * 60]
    assert split(first + "y" * 70) == [first.strip(), "y" * 70]
    assert split(f"{'a' * 70} {'b' * 70}") == ["a" * 70, "b" * 70]
    assert split("a" * 250) == ["a" * 100, "a" * 100, "a" * 50]


@given(TEXTS, st.integers(5, 50))
def test_nothing_is_lost_and_no_chunk_is_too_long_or_blank(text: str, size: int) -> None:
    found = split(text, size)
    assert "".join("".join(found).split()) == "".join(text.split())
    assert all(chunk.strip() and len(chunk) <= size for chunk in found)


def test_chunks_stand_in_the_text_that_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    file.write_bytes("\ufeff<p>Größe 👩\u200d👧\r\n \r\nzwei</p>".encode())
    found = first_splitter.read_and_split(file, 20)
    assert found is not None
    document, chunks = found
    assert [chunk.text for chunk in chunks] == ["<p>Größe 👩\u200d👧", "zwei</p>"]
    assert all(document.text[chunk.start :].startswith(chunk.text) for chunk in chunks)


def test_what_it_did_not_accept_is_left_to_others(tmp_path: Path) -> None:
    for data in (b"", b" \n", b"PK\0", b"caf\xe9"):
        (tmp_path / "a").write_bytes(data)
        assert first_splitter.read_and_split(tmp_path / "a", 2000) is None
    assert first_splitter.read_and_split(tmp_path / "none", 2000) is None
