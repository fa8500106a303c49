"""A file is replaced by a complete one, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from trustgraph_prompt.errors import StoreError
from trustgraph_prompt.replaced_file import replaced


def fill_the_disk(file: Path) -> None:
    with replaced(file) as part:
        part.write_text("half")
        raise OSError(28, "No space left on device")


def test_failed_write_keeps_the_previous_file_and_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "graph.html"
    file.write_text("before")
    with pytest.raises(StoreError, match=r"graph\.html: cannot be written: No space left"):
        fill_the_disk(file)
    assert file.read_text() == "before"
    assert [*tmp_path.iterdir()] == [file]


def test_target_of_a_link_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    with replaced(tmp_path / "link") as part:
        part.write_text("after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "after"


def test_file_where_a_folder_is_expected_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Not a directory"):
        fill_the_disk(tmp_path / "file" / "graph.html")
