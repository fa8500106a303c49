"""The examples in the guide to contracts are true."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "contracts.md"


def test_the_examples_do_what_the_guide_says() -> None:
    blocks = re.findall(r"^```python\n(.*?)\n^```$", GUIDE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, "contracts.md", str(GUIDE), 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(examples, out=report.append)
    assert result.attempted >= 20
    assert not result.failed, "".join(report)
