"""The examples in the guides are true."""

from __future__ import annotations

import doctest
import re

import pytest

from tests.support.guides import ROOT, guide_page


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("reading.md", 15),
        ("contracts.md", 20),
        ("extract-in-python.md", 12),
        ("answers.md", 9),
        ("asking.md", 8),
        ("complete.md", 20),
        ("prompt-class.md", 25),
        ("schema-language.md", 15),
        ("structured-response.md", 30),
        ("language-run-time.md", 30),
    ],
)
def test_the_examples_do_what_the_guide_says(name: str, least: int) -> None:
    page = guide_page(name)
    blocks = re.findall(r"^```python\n(.*?)\n^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=report.append)
    assert result.attempted >= least
    assert not result.failed, "".join(report)


def test_a_program_runs_the_worker_as_the_guide_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = guide_page("running.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    [program] = [block for block in blocks if "Service(" in block]
    exec(compile(program, "running.md", "exec", dont_inherit=True), {})
