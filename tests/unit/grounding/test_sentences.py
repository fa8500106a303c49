"""Where the sentences around a part of a text begin and end."""

from __future__ import annotations

import pytest

from tests.support.steps import is_linear
from trustgraph_prompt.grounding.sentences import MOST_AROUND, sentences_around


def around(text: str, part: str) -> str:
    start = text.index(part)
    begins, ends = sentences_around(text, start, start + len(part))
    return text[begins:ends].strip()


@pytest.mark.parametrize(
    ("text", "part", "sentences"),
    [
        ("One is here. Two are there. Three went.", "are", "Two are there."),
        ("One is here. Two are there. Three went.", "Two are there.", "Two are there."),
        ("One is here. Two are there. Three went.", "there. Three", "Two are there. Three went."),
        ("One is here. “Two are there.” Three went.", "are", "“Two are there.”"),
        ("One is here! Are two there? Three went.", "two", "Are two there?"),
        ("It was J. S. Bach himself. He went.", "Bach", "It was J. S. Bach himself."),
        ("It has 3.5 metres there. He went.", "metres", "It has 3.5 metres there."),
        ("A heading\n\nTwo are\nthere\n \nThree", "are", "Two are\nthere"),
        ("白垩是岩石。锯子挂在墙上。他走了。", "挂", "锯子挂在墙上。"),
        ("هل هو هنا؟ المنشار معلق۔ ذهب", "معلق", "المنشار معلق۔"),
        ("यह यहाँ है। वह वहाँ है। गया", "वहाँ", "वह वहाँ है।"),
        ("no end", "no", "no end"),
    ],
)
def test_sentences_around_a_part_are_whole(text: str, part: str, sentences: str) -> None:
    assert around(text, part) == sentences


def test_text_without_sentence_ends_is_cut_around_the_part() -> None:
    text = f"{'a ' * MOST_AROUND} part {'b ' * MOST_AROUND}"
    start = text.index("part")
    assert sentences_around(text, start, start + 4) == (start - MOST_AROUND, start + 4 + MOST_AROUND)


@pytest.mark.parametrize("filler", ["and ", "\n", "end. ", "...", ")", "end.)", "。"])
def test_effort_does_not_grow_with_the_text(filler: str) -> None:
    def find(size: int) -> None:
        text = filler * size
        for at in range(0, size, 500):
            sentences_around(text, at, at + 1)

    assert is_linear(find, 20_000)
