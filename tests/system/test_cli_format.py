"""`format` as a process: files of the prompt language are laid out in one way."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import run


def test_format_lays_out_what_format_check_names(tmp_path: Path) -> None:
    file = tmp_path / "a.prompt"
    file.write_bytes(b"# why\r\nprompt a :  'x'\r\n   attempts:  2\r\n")
    result = run("format", tmp_path, "--check")
    assert (result.returncode, result.stdout) == (1, f"would change {file}\n")
    assert file.read_bytes().startswith(b"# why\r\n")
    assert run("format", file).returncode == 0
    assert file.read_bytes() == b'# why\nprompt a: "x"\n    attempts: 2\n'
    result = run("format", tmp_path, "--check")
    assert (result.returncode, result.stdout) == (0, "")


def test_format_changes_nothing_where_one_file_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.prompt").write_text("prompt a :  'x'\n")
    (tmp_path / "b.prompt").write_text("prompt b using\n")
    result = run("format", tmp_path)
    assert result.returncode == 2
    assert "b.prompt:1:15" in result.stderr
    assert (tmp_path / "a.prompt").read_text() == "prompt a :  'x'\n"


def test_format_of_a_folder_without_files_of_the_language_is_an_error(tmp_path: Path) -> None:
    assert "no files to format" in run("format", tmp_path).stderr
