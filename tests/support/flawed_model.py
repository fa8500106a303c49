"""Gold texts, and a model with known errors: it misses some objects, and makes some up."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from trustgraph_prompt.errors import Reason
from trustgraph_prompt.evaluation.gold import GoldQuestion
from trustgraph_prompt.evaluation.scores import Evaluation
from trustgraph_prompt.extraction.results import FoundObject, Result
from trustgraph_prompt.json_text.encoding import encode
from trustgraph_prompt.prompts.gold_file import GoldText
from trustgraph_prompt.prompts.match_clause import MatchClause
from trustgraph_prompt.worker.messages.answer_record import Answer

BY_NAME = MatchClause({"name": "normalised"})

Object = dict[str, Any]


def gold_texts(count: int, chance: random.Random, objects: tuple[int, int] = (2, 8)) -> list[GoldText]:
    """Texts of the names of their objects."""
    texts: list[GoldText] = []
    for number in range(count):
        names = [f"Mount {number}-{each}" for each in range(chance.randint(*objects))]
        terms = {"text": "; ".join(names)}
        texts.append(GoldText(f"gold:{number}", f"text {number}", terms, tuple({"name": n} for n in names)))
    return texts


def flawed(
    expected: Sequence[Object], chance: random.Random, *, recall: float, made_up: float
) -> list[Object]:
    """The objects that come: each expected one with a chance of `recall`, in other case and spaces, and for
    each expected one a wrong one with a chance of `made_up`."""
    came = [{"name": f"  {each['name'].upper()} "} for each in expected if chance.random() < recall]
    came += [{"name": f"Nowhere {each['name']}"} for each in expected if chance.random() < made_up]
    chance.shuffle(came)
    return came


def evaluation(texts: Sequence[GoldText], answers: Sequence[Sequence[Object]]) -> Evaluation:
    """The scores of a version that gave these answers."""
    results = [
        Result(
            GoldQuestion(position, f"r{position}", "mountains", text),
            tuple(FoundObject(encode(each)) for each in objects),
            Answer(f"r{position}", "extract", "mountains", "v", Reason.SUCCESS, "direct", False, ()),
        )
        for position, (text, objects) in enumerate(zip(texts, answers, strict=True))
    ]
    return Evaluation.of("v", "flawed", BY_NAME, results)
