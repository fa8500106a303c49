"""How often the tokens of real answers are within the range that `--estimate` makes of a few of them.

`python benchmarks/estimate.py FOLDER`: FOLDER has sentences (`test/`) and the triples that models found in
them (`published/`), as Text2KGBench publishes both. Decision 0063 has the figures. Takes some seconds.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trustgraph_prompt.extraction.estimate import KnownAnswer, PlannedQuestion, estimate
from trustgraph_prompt.llm.token_estimates import estimate as estimate_text
from trustgraph_prompt.prompts import PromptDefinition

DRAWS = 200
PROMPT = PromptDefinition.from_entry("triples", {"dialect": "jinja", "prompt": "{{ text }}"})


def lines(file: Path) -> Iterator[dict[str, Any]]:
    return map(json.loads, file.read_text("utf-8").splitlines())


def answer(triples: list[list[str]]) -> str:
    """The triples as a prompt would have them: an object a line."""
    names = ("subject", "predicate", "object")
    return "\n".join(json.dumps(dict(zip(names, triple, strict=True))) for triple in triples) or "[]"


def answers(folder: Path) -> Iterator[tuple[str, list[tuple[PlannedQuestion, int]]]]:
    """The questions of each run, with the tokens of their answers."""
    sentences = {line["id"]: line["sent"] for file in (folder / "test").iterdir() for line in lines(file)}
    for file in sorted((folder / "published").iterdir()):
        yield (
            file.stem,
            [
                (
                    PlannedQuestion.of(PROMPT, {"text": sentences[line["id"]]}),
                    estimate_text(answer(line["triples"])),
                )
                for line in lines(file)
                if line["id"] in sentences
            ],
        )


def is_within(run: list[tuple[PlannedQuestion, int]], known: int) -> bool:
    """Whether the rest of the answers is within the range that so many of them give."""
    drawn = set(random.sample(range(len(run)), known))
    told = [KnownAnswer(run[n][0].term_tokens, run[n][1], 1) for n in drawn]
    rest = [each for n, each in enumerate(run) if n not in drawn]
    low, high = estimate([question for question, _ in rest], [0] * len(rest), {PROMPT.id: told})
    return low.tokens_out <= sum(tokens for _, tokens in rest) <= high.tokens_out


def main(folder: Path) -> None:
    """Print the length of each run's answers, and how often each number of them tells that of the others."""
    random.seed(1)
    runs = dict(answers(folder))
    for name, run in runs.items():
        ratio = sum(tokens for _, tokens in run) / sum(question.term_tokens for question, _ in run)
        print(f"{name:<32}{len(run):>4} answers, {ratio:.2f} tokens for each of the text")
    for known in (1, 2, 3, 5, 10, 20, 50):
        within = [is_within(run, known) for run in runs.values() for _ in range(DRAWS)]
        print(f"{known:>3} known: {100 * sum(within) / len(within):.0f} of 100 within the range")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
