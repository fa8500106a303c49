"""The prompts in the guides are good, laid out as they should be, and their examples hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.guides import guide_page
from tests.support.pools import FILMS, gold_line
from trustgraph_prompt import language
from trustgraph_prompt.ask import try_examples
from trustgraph_prompt.prompts import files

GOLD = gold_line(*FILMS[0])
"""A file that a prompt of the guides names."""


def blocks(kind: str, *pages: str) -> list[str]:
    text = "\n".join(
        guide_page(page).read_text("utf-8") for page in pages or ("write-a-prompt.md", "prompts.md")
    )
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("source", [*blocks("prompt"), *blocks("prompt", "caching.md")])
def test_prompts_of_the_guides_read_their_examples_as_shown(source: str, tmp_path: Path) -> None:
    (tmp_path / "guide.prompt").write_text(source, "utf-8")
    (tmp_path / "films.gold.jsonl").write_text(GOLD)
    read = files.read(tmp_path)
    assert try_examples(read.build(), read.examples) == []
    assert language.format(source) == source


@pytest.mark.parametrize("source", blocks("yaml"))
def test_entries_of_the_guides_are_valid(source: str, tmp_path: Path) -> None:
    (tmp_path / "guide.yaml").write_text(source, "utf-8")
    assert list(files.read(tmp_path).build().prompts) == ["guide"]


def test_programs_of_the_guides_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "guide.prompt").write_text("\n".join(blocks("prompt")), "utf-8")
    (tmp_path / "prompts" / "films.gold.jsonl").write_text(GOLD)
    monkeypatch.chdir(tmp_path)
    for program in blocks("python"):
        exec(compile(program, "prompts.md", "exec", dont_inherit=True), {"__name__": "guide"})
