"""The examples in the guides are true."""

from __future__ import annotations

import doctest
import re

import pytest

from tests.support.guides import ROOT, guide_page

PAGES = {
    page.name: page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if re.search(r"^>>> ", page.read_text("utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize("name", PAGES)
def test_examples_of_the_guides_give_the_output_shown(name: str) -> None:
    text = PAGES[name].read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)\n^```$", text, re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name, str(PAGES[name]), 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=report.append)
    assert result.attempted == len(re.findall(r"^>>> ", text, re.MULTILINE))
    assert not result.failed, "".join(report)


def test_program_of_the_guide_can_be_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = guide_page("running.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [program] = [block for block in blocks if "Service(" in block]
    exec(compile(program, "running.md", "exec", dont_inherit=True), {})
