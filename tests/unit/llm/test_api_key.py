"""Where the key of a server comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from trustgraph_prompt.llm import api_key


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "OTHER_API_KEY"])
def test_key_file_goes_before_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.delenv(f"{variable}_FILE", raising=False)
    monkeypatch.setenv(variable, "from the variable")
    assert api_key.from_environment(variable) == "from the variable"

    (tmp_path / "key").write_text("from the file\n")
    monkeypatch.setenv(f"{variable}_FILE", str(tmp_path / "key"))
    key = api_key.from_environment(variable)
    assert isinstance(key, api_key.KeyFile)
    assert key() == "from the file"


def test_key_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first")
    key = api_key.KeyFile(file, "OPENAI_API_KEY")

    replace(file, "second")
    assert key() == "second"
    replace(file, "")
    assert key() == "second"
    file.unlink()
    assert key() == "second"
    file.write_text("third")
    assert key() == "third"


def replace(file: Path, text: str) -> None:
    """Replace a file as a mounted secret is: by another file."""
    other = file.with_name("other")
    other.write_text(text)
    other.rename(file)


def test_key_is_none_where_nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)

    assert api_key.from_environment("NO_SUCH_KEY") is None
