"""The guide "Improve a prompt", command by command: each works, and prints what the guide shows."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.support.command import ROOT, run
from tests.support.guides import guide_page

BLOCK = re.compile(r"^```(prompt|sh|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00")


def lines(text: str) -> list[str]:
    """Lines without the time, and without their layout, which depends on the longest."""
    return [" ".join(TIME.sub("TIME", line).split()) for line in text.splitlines() if set(line) - set(" ─")]


def shown_in(shown: str, printed: str) -> bool:
    """Whether the lines of the guide, without those left out (…), are printed in this order."""
    rest = iter(lines(printed))
    return all(line in rest for line in lines(shown) if line != "…")


def commands(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        yield shlex.split(line, comments=True)


def test_the_guide_takes_a_prompt_from_bad_to_better(tmp_path: Path) -> None:
    (tmp_path / "demo").symlink_to(ROOT / "demo")
    (tmp_path / "places").mkdir()
    printed = ""
    compared = 0
    for kind, block in BLOCK.findall(guide_page("improve-a-prompt.md").read_text(encoding="utf-8")):
        if kind == "prompt":
            (tmp_path / "places" / "places.prompt").write_text(block, encoding="utf-8")
        elif kind == "text":
            assert shown_in(block, printed), block
            compared += 1
        else:
            for program, *words in commands(block):
                if program == "cp":
                    shutil.copy(tmp_path / words[0], tmp_path / words[1])
                    continue
                assert program == "trustgraph-prompt"
                done = run(*words, folder=tmp_path)
                assert done.returncode == 0, (words, done.stderr)
                printed = done.stdout
    assert compared == 8
    assert len((tmp_path / "chalk.gold.jsonl").read_text().splitlines()) == 7
