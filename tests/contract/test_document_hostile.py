"""Hostile documents: small files that stand for much are read once or refused, and any can be ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support import document_files as made
from tests.support import hostile_documents as hostile
from tests.support.document_files import SENTENCE
from trustgraph_prompt.documents import Converter, convert
from trustgraph_prompt.errors import ConfigError

MEBIBYTE = 1024 * 1024
SLOW = hostile.page_of(hostile.attributes(19_000) * 100)
"""Takes minutes in native code."""


READING = """
import sys
from pathlib import Path
from trustgraph_prompt.documents import Converter
with Converter(max_seconds=float(sys.argv[1])) as converter:
    for name in sys.argv[2:]:
        try:
            print(converter.read(Path(name)).format, flush=True)
        except Exception as error:
            print(error, flush=True)
"""
"""A command that reads files, with a limit of seconds."""


@pytest.fixture
def converter() -> Iterator[Converter]:
    with Converter(max_memory=512 * MEBIBYTE) as converter:
        yield converter


def refusal(converter: Converter, data: bytes, name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        converter.convert(data, name)
    return str(caught.value)


@contextmanager
def reading(folder: Path, seconds: float, circumstance: str = "true") -> Iterator[subprocess.Popen[bytes]]:
    """A command that reads two files, in a circumstance of the shell; it has read the first one."""
    (folder / "a.docx").write_bytes(made.word())
    (folder / "a.html").write_bytes(SLOW)
    command = [sys.executable, "-c", READING, str(seconds), "a.docx", "a.html"]
    shell = ["sh", "-c", f'{circumstance}; exec "$@"', "sh", *command]
    with subprocess.Popen(shell, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"docx\n"
        yield process


def ticks(process: int) -> int:
    """The CPU time of a process; 0 if it has ended."""
    with suppress(FileNotFoundError):
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return 0 if state == "Z" else int(fields[10])
    return 0


def child(parent: int | None = None) -> int:
    """The process that this process, or another one, has started last."""
    parent = parent or os.getpid()
    children = Path(f"/proc/{parent}/task/{parent}/children")
    while not (found := children.read_text().split()):
        time.sleep(0.01)
    return int(found[-1])


class TestLimits:
    def test_native_code_is_ended_at_the_limit_of_cpu_and_the_next_file_is_read(self) -> None:
        with Converter(max_seconds=1) as converter:
            assert refusal(converter, SLOW, "a.html") == (
                "a.html: takes more than 1 seconds of CPU to read; split it"
            )
            assert SENTENCE in converter.convert(made.word(), "a.docx").text

    def test_a_file_that_needs_more_than_the_limit_of_memory_is_refused(self) -> None:
        rows = b"River,km\n" + b"Rhine,1233\n" * 1_000_000
        with Converter(max_memory=64 * MEBIBYTE) as converter:
            assert refusal(converter, rows, "a.csv") == (
                "a.csv: needs more than 64 MiB of memory to read; split it"
            )
            assert SENTENCE in converter.convert(made.word(), "a.docx").text

    def test_time_and_memory_of_one_file_are_not_those_of_the_next(self) -> None:
        rows = b"River,km\n" + b"Rhine,1233\n" * 20_000
        with Converter(max_seconds=30, max_memory=256 * MEBIBYTE) as converter:
            for _ in range(20):
                assert len(converter.convert(rows, "a.csv").records) == 20_000

    @pytest.mark.parametrize(
        ("signal", "error", "said"),
        [
            (signal.SIGSEGV, ConfigError, "a.html: cannot be read: the process that reads it crashed"),
            (signal.SIGKILL, ConfigError, "a.html: cannot be read: the process that reads it was killed"),
            (signal.SIGINT, KeyboardInterrupt, ""),
        ],
    )
    def test_a_process_that_ends_ends_only_its_file(
        self, signal: signal.Signals, error: type[BaseException], said: str
    ) -> None:
        # Stands for a crash in native code, for the system's lack of memory, and for Ctrl-C.
        with Converter() as converter:
            converter.convert(made.word(), "a.docx")  # the process has begun
            with ThreadPoolExecutor(1) as thread:
                reading = thread.submit(converter.convert, SLOW, "a.html")
                os.kill(child(), signal)
                with pytest.raises(error) as caught:
                    reading.result()
            assert str(caught.value).startswith(said)
            assert SENTENCE in converter.convert(made.word(), "a.docx").text

    def test_libxml2_without_memory_is_no_damaged_file(self) -> None:
        with Converter(max_memory=48 * MEBIBYTE) as converter:
            assert refusal(converter, hostile.page_of("<p>a <i>b</i>" * 400_000), "a.html") == (
                "a.html: needs more than 48 MiB of memory to read; split it"
            )

    def test_the_process_does_not_outlive_a_command_that_is_killed(self, tmp_path: Path) -> None:
        with reading(tmp_path, 900) as command:
            process = child(command.pid)
            before = ticks(process)
            while ticks(process) < before + 50:  # amid the second file
                time.sleep(0.01)
            command.kill()
        while ticks(process):
            time.sleep(0.01)

    @pytest.mark.parametrize("circumstance", ["exec 2>&-", "ulimit -d 1000000", "trap '' INT"])
    def test_cpu_limit_is_reported_whatever_the_shell_withholds(
        self, circumstance: str, tmp_path: Path
    ) -> None:
        with reading(tmp_path, 3, circumstance) as command:
            if "INT" in circumstance:
                os.kill(child(command.pid), signal.SIGINT)
            assert command.stdout is not None
            assert b"takes more than 3 seconds of CPU" in command.stdout.read()

    def test_plain_text_starts_no_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.executable", "/no/python")
        with Converter() as converter:
            assert converter.convert(b"# Rhine", "a.md").format == "markdown"
            assert converter.convert(b"Rhine", "a.txt").format == "text"
            assert refusal(converter, made.word(), "a.docx") == (
                "a.docx: cannot be read: the process that reads it does not start: No such file or directory"
            )


class TestLargePages:
    """What libxml2 would drop without an error."""

    @pytest.mark.parametrize(
        "body",
        [
            "<div>x" * 1_500 + "</div>" * 1_500,
            f"<p>{'word ' * 2_200_000}</p>",
            f"<img src='data:{'x' * 11_000_000}'>",
            f"<script>{'x = 1;' * 2_000_000}</script>",
        ],
        ids=["nested", "text", "picture", "script"],
    )
    def test_text_after_a_huge_element_is_read(self, body: str) -> None:
        page = f"<h1>Rivers</h1><p>{SENTENCE}</p>{body}<p>The end.</p>"
        for data, name in ((hostile.page_of(page), "a.html"), (made.epub({"a.xhtml": page}), "a.epub")):
            assert convert(data, name).text.endswith("The end.")

    def test_deeper_pages_are_refused(self) -> None:
        for data, name in (
            (hostile.page_of("<div>" * 2_100), "a.html"),
            (hostile.book_of("<b>" * 2_100), "a.epub"),
        ):
            with pytest.raises(ConfigError, match="are nested more than 2,048 levels deep"):
                convert(data, name)

    @pytest.mark.parametrize("attributes", [" a=1", " a", "/a", "a='>'", ' a = "<!--"'])
    def test_tags_with_too_many_attributes_are_refused(self, attributes: str) -> None:
        for page in (
            f"<p {attributes * 20_001}>",
            f"<script></script><!-- <p> --><script {attributes * 20_001}>",
        ):
            with pytest.raises(ConfigError, match="has a tag with more than 20,000 attributes"):
                convert(hostile.page_of(page), "a.html")

    def test_text_that_only_looks_like_attributes_is_read(self) -> None:
        numbers = "1, 2, " * 20_000
        page = f"<script>while (i <n.length) x = [{numbers}]</script><!-- a <b {numbers}--><p>The end."
        assert convert(hostile.page_of(page), "a.html").text == "The end."


class TestRepeatedText:
    """What many places refer to is counted before it is put together."""

    @pytest.mark.parametrize(
        "make",
        [
            hostile.sheet_of_one_string,
            hostile.sheet_of_one_rich_string,
            hostile.sheet_with_a_long_name,
        ],
    )
    def test_a_long_string_of_many_cells_is_refused(self, converter: Converter, make: hostile.Make) -> None:
        assert "its text is longer than 67,108,864 characters" in refusal(converter, make(2_000), "a.xlsx")

    def test_pieces_of_a_string_count_in_each_cell(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("trustgraph_prompt.documents.spreadsheets.MAX_CELLS", 100_000)
        with pytest.raises(ConfigError, match="has more than 100,000 cells"):
            convert(hostile.sheet_of_a_string_of_pieces(10), "a.xlsx")

    @pytest.mark.parametrize("nested", [hostile.nested_cells, hostile.nested_rows, hostile.nested_asides])
    def test_text_that_is_nested_deeply_is_read_once(
        self, converter: Converter, nested: hostile.Nested
    ) -> None:
        for name, data in (
            ("a.html", hostile.page_of(nested(70, 1))),
            ("a.epub", hostile.book_of(nested(70, 1))),
        ):
            assert converter.convert(data, name).text.count("x") in (500_000, 1_000_000)

    def test_formulas_in_each_other_are_read_once(self, converter: Converter) -> None:
        assert converter.convert(
            hostile.page_of(hostile.nested_formulas(70, 1)), "a.html"
        ).text == "x " * 499_999 + ("x")


class TestRepeatedParts:
    """What a file lists many times is read once."""

    @pytest.mark.parametrize(
        ("name", "make", "text"),
        [
            ("a.xlsx", hostile.book_of_one_sheet, "7"),
            ("a.epub", hostile.book_of_one_chapter, "x"),
            ("a.docx", hostile.word_with_one_part_of_notes, "The Rhine.\n\nIn Europe."),
            ("a.docx", hostile.word_with_one_embedded_page, "x\n\nPage."),
        ],
    )
    def test_a_part_that_is_listed_many_times_is_read_once(
        self, converter: Converter, name: str, make: hostile.Make, text: str
    ) -> None:
        assert converter.convert(make(2_000), name).text == text

    def test_a_slide_that_is_listed_many_times_is_one_page(self, converter: Converter) -> None:
        document = converter.convert(hostile.show_of_one_slide(2_000), "a.pptx")
        assert document.text.count(SENTENCE) == document.text.count("Speak slowly.") == 1
        assert {place.page for place in document.places} == {1}


class TestHiddenTags:
    @pytest.mark.parametrize("encoding", ["UTF-7", "IBM037", "cp037", "x-mac-arabic", "UNKNOWN"])
    def test_an_encoding_that_hides_tags_is_refused(self, converter: Converter, encoding: str) -> None:
        data = hostile.word_in_utf_7(1, encoding)
        assert f"has XML in an encoding that these files never have (found '{encoding}'" in refusal(
            converter, data, "a.docx"
        )

    def test_tags_count_whatever_their_part_is_called(self, converter: Converter) -> None:
        assert "holds more than 3,000,000 XML tags" in refusal(
            converter, hostile.word_named_like_a_sheet(3_000_000), "a.docx"
        )

    @pytest.mark.parametrize("encoding", ["utf-8", "UTF-16", "ISO-8859-1", "us-ascii", "windows-1252"])
    def test_usual_encodings_are_read(self, encoding: str) -> None:
        body = made.part(made.word(), "word/document.xml").replace("🌊", "o").partition("?>")[2]
        text = f'<?xml version="1.0" encoding="{encoding}"?>{body.encode("ascii", "ignore").decode()}'
        data = made.changed(made.word(), {"word/document.xml": text.encode(encoding)})
        assert "The Rhine is shorter." in convert(data, "a.docx").text
