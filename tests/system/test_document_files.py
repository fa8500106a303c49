"""Files, folders and patterns as a person names them, and what they are without the extra `documents`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import document_files as made
from tests.support.command import DOCUMENT, SCRIPTED, environment, run
from trustgraph_prompt.documents import Converter, Document, Listing, listed
from trustgraph_prompt.errors import ConfigError


@pytest.fixture
def papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the current one: documents, hidden files and other formats."""
    monkeypatch.chdir(tmp_path)
    for name in (
        "b.txt",
        "a.md",
        "sub/deep/c.csv",
        "sub/D.TXT",
        "x.pdf/in.txt",
        ".git/e.txt",
        ".f.txt",
        "sub/~$b.txt",
    ):
        file = tmp_path / "papers" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    for name in ("p.png", "q.png", "Makefile"):
        (tmp_path / "papers" / name).write_bytes(b"\0")
    return Path("papers")


def read(file: Path) -> Document:
    with Converter() as converter:
        return converter.read(file)


def names(listing: Listing) -> list[str]:
    return [file.as_posix() for file in listing.files]


class TestListed:
    def test_a_folder_is_all_its_documents_in_order_and_what_is_skipped_is_noted(self, papers: Path) -> None:
        listing = listed(["papers"])
        assert names(listing) == [
            *(
                "papers/a.md",
                "papers/b.txt",
                "papers/sub/D.TXT",
                "papers/sub/deep/c.csv",
                "papers/x.pdf/in.txt",
            ),
        ]
        [note] = listing.notes
        assert note == "papers: skipped 3 hidden, 2 .png, 1 without extension"

    def test_a_link_out_of_a_folder_is_skipped_with_a_note(self, papers: Path, tmp_path: Path) -> None:
        (tmp_path / "secrets").mkdir()
        (tmp_path / "secrets" / "keys.txt").write_text("secret")
        (papers / "sub" / "notes.txt").symlink_to(tmp_path / "secrets" / "keys.txt")
        (papers / "up.txt").symlink_to("../secrets/keys.txt")
        (papers / "all").symlink_to(tmp_path / "secrets")
        (papers / "same.md").symlink_to("sub/D.TXT")
        (tmp_path / "here").symlink_to(papers.resolve())
        for folder in ("papers", "here", "./papers/../papers"):
            listing = listed([folder])
            assert {file.name for file in listing.files} == {"a.md", "b.txt", "same.md", "c.csv", "in.txt"}
            assert listing.notes[0].endswith(
                "skipped 3 hidden, 3 outside of the folder (links), 2 .png, 1 without extension"
            )
        assert names(listed(["papers/up.txt"])) == ["papers/up.txt"]

    def test_files_that_a_pattern_finds_outside_its_folder_are_skipped_with_a_note(
        self, papers: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "secrets").mkdir()
        (tmp_path / "secrets" / "keys.txt").write_text("secret")
        (papers / "up.txt").symlink_to("../secrets/keys.txt")
        (papers / "all").symlink_to(tmp_path / "secrets")
        (papers / "same.txt").symlink_to("b.txt")
        for pattern in ("papers/*", "papers/**/*.txt", "papers/*/*.txt"):
            listing = listed([pattern, "papers/a.md"])
            assert not any("secrets" in os.path.realpath(file) for file in listing.files)
            assert f"{pattern}: skipped" in listing.notes[0]
        assert names(listed(["papers/all/*.txt"])) == ["papers/all/keys.txt"]
        assert names(listed(["papers/s*.txt"])) == ["papers/same.txt"]
        with pytest.raises(ConfigError, match="holds no document") as error:
            listed(["papers/up*.txt"])
        assert error.value.__notes__ == ["papers/up*.txt: skipped 1 outside of the folder (links)"]

    def test_a_named_pipe_in_a_folder_holds_nothing_up(self, papers: Path) -> None:
        os.mkfifo(papers / "pipe.html")
        assert "papers/pipe.html" in names(listed(["papers"]))

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("papers/*.txt", ["papers/b.txt"]),
            ("papers/?.md", ["papers/a.md"]),
            ("papers/**/*.[ct]*", ["papers/b.txt", "papers/sub/deep/c.csv", "papers/x.pdf/in.txt"]),
            ("papers/sub/**", ["papers/sub/D.TXT", "papers/sub/deep/c.csv"]),
            ("papers/.git/*.txt", ["papers/.git/e.txt"]),
        ],
    )
    def test_a_pattern_is_the_files_that_match(self, papers: Path, pattern: str, found: list[str]) -> None:
        assert names(listed([pattern])) == found
        [absolute, *_] = listed([str(Path.cwd() / pattern)]).files
        assert absolute == Path.cwd() / found[0]

    def test_a_name_with_the_signs_of_a_pattern_is_that_file(self, papers: Path) -> None:
        (papers / "x[1].txt").write_text("text")
        (papers / "x1.txt").write_text("text")
        assert names(listed(["papers/x[1].txt"])) == ["papers/x[1].txt"]

    def test_the_same_file_counts_once(self, papers: Path) -> None:
        (papers / "link.txt").symlink_to("b.txt")
        again = [
            str(papers / "b.txt"),
            str(papers.absolute() / "b.txt"),
            "papers/*.txt",
            "-",
            "papers/link.txt",
            "-",
        ]
        assert names(listed(again)) == ["papers/b.txt", "-"]

    def test_links_that_lead_back_end(self, papers: Path) -> None:
        for name in ("one", "two"):
            (papers / name).symlink_to("..", target_is_directory=True)
        assert len(listed(["papers"]).files) == len(listed(["papers/**/*"]).files) - 3 == 5

    @pytest.mark.parametrize(
        ("name", "told"),
        [
            ("missing.txt", "missing.txt: does not exist"),
            ("*.nothing", "matches no file"),
            ("papers/.git", "holds no document"),
            ("", "does not exist"),
        ],
    )
    def test_a_name_that_matches_nothing_is_an_error(self, papers: Path, name: str, told: str) -> None:
        (papers / ".git" / "e.txt").unlink()
        with pytest.raises(ConfigError, match=told.replace(".", r"\.")):
            listed(["papers", name])


class TestRead:
    def test_a_document_has_the_name_that_was_given(self, papers: Path) -> None:
        assert read(papers / "b.txt").file == "papers/b.txt"

    def test_an_unknown_format_that_was_named_is_an_error(self, papers: Path) -> None:
        [file] = listed(["papers/p.png"]).files
        with pytest.raises(ConfigError, match=r"papers/p.png: is a binary file"):
            read(file)

    def test_folders_pipes_and_missing_files_are_refused(self, papers: Path) -> None:
        os.mkfifo("pipe.txt")
        for name, told in (
            ("papers/x.pdf", "is a folder"),
            ("pipe.txt", "not a regular file"),
            ("no.txt", "No such"),
        ):
            with pytest.raises(ConfigError, match=f"{name}: .*{told}"):
                read(Path(name))

    def test_a_file_that_is_too_large_is_refused_unread(self, papers: Path) -> None:
        with open("large.txt", "wb") as file:
            file.truncate(257 * 1024 * 1024)
        with pytest.raises(ConfigError, match="is larger than 256 MiB"):
            read(Path("large.txt"))

    def test_a_dash_is_standard_input_whose_format_shows_in_its_bytes(self) -> None:
        program = (
            "from trustgraph_prompt.documents import *; from pathlib import Path\n"
            "with Converter() as converter: print(converter.read(Path('-')))"
        )
        result = _python(program, made.pdf(["Rhine"]))
        assert result.stdout == b"Document(file='-', format='pdf', notes=())\n"


def test_extract_takes_a_folder_and_notes_what_it_skips(tmp_path: Path) -> None:
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "chalk.txt").write_bytes(DOCUMENT.read_bytes())
    (tmp_path / "papers" / "photo.png").write_bytes(b"\x89PNG")
    result = run("extract", "papers", "--provider", SCRIPTED, folder=tmp_path)
    assert result.returncode == 0
    assert "papers: skipped 1 .png" in result.stderr
    lines = (tmp_path / "extracted.jsonl").read_text().splitlines()
    assert {json.loads(line)["file"] for line in lines} == {"papers/chalk.txt"}


WITHOUT = """
import sys
from pathlib import Path
for name in ("charset_normalizer", "docx", "lxml", "openpyxl", "pptx", "pypdf", "trafilatura"):
    sys.modules[name] = None
from trustgraph_prompt.documents import convert
from trustgraph_prompt.errors import ConfigError
for name in sys.argv[1:]:
    try:
        print(convert(Path(name).read_bytes(), name).format)
    except ConfigError as error:
        print(error)
"""


def test_formats_beyond_plain_text_say_what_to_install_without_the_extra(tmp_path: Path) -> None:
    files = {
        "a.txt": "Größe".encode(),
        "a.md": b"# A",
        "a.csv": b"a,b\n1,2",
        "b.txt": b"caf\xe9",
        "a.pdf": made.pdf(["x"]),
        "a.docx": made.word(),
        "a.pptx": made.powerpoint(),
        "a.xlsx": made.excel({"s": [["a"]]}),
        "a.html": b"<html><body>x</body></html>",
        "a.epub": made.epub({"a.xhtml": "<p>x"}),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    told = _python(WITHOUT, b"", *files, folder=tmp_path).stdout.decode().splitlines()
    assert told[:3] == ["text", "markdown", "csv"]
    assert told[3].startswith("b.txt: is not UTF-8 at byte 3")
    labels = ("PDF", "Word", "PowerPoint", "Excel", "HTML", "EPUB")
    for line, label in zip(told[4:], labels, strict=True):
        assert f": {label} " in line
        assert line.endswith("pip install 'trustgraph-prompt[documents]'")


def _python(
    program: str, given: bytes, *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=given,
        stdout=subprocess.PIPE,
        env=environment(),
        cwd=folder,
        check=True,
        timeout=60,
    )
