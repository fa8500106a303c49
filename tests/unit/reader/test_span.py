"""Where in an answer its one value stands."""

from __future__ import annotations

import pytest

from trustgraph_prompt.contract import Contract
from trustgraph_prompt.reader import read

ANSWER = Contract.from_schema({"type": "object", "required": ["answer"]}, repair=True)
MANY = Contract.from_schema({"type": "object", "required": ["answer"]}, many=True)
VALUE = '{"answer": "é"}'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (VALUE, VALUE),
        (f"\ufeff \n{VALUE}\n", VALUE),
        (f"Ça va: {VALUE} or so", VALUE),
        (f"```json\n{VALUE}\n```", VALUE),
        (f'{{"question": 1}} and {VALUE}', VALUE),
        ("<think>{}</think>\n{'answer': 1,} I think", "{'answer': 1,}"),
        ('So: {"answer": "no end', '{"answer": "no end'),
    ],
)
def test_span_is_the_value_as_it_is_written(text: str, value: str) -> None:
    outcome = read(text, ANSWER)

    assert outcome.span is not None
    assert text[slice(*outcome.span)] == value


def test_span_of_a_wrapped_list_is_the_wrapper() -> None:
    outcome = read(f'{{"answers": [{VALUE}]}}', MANY)

    assert outcome.span == (0, len(f'{{"answers": [{VALUE}]}}'))


@pytest.mark.parametrize(
    ("text", "format"),
    [("no value", "json"), ('{"n": 1}', "jsonl"), ("a text", "text"), ("{} or []", "json")],
)
def test_span_is_none_without_exactly_one_value(text: str, format: str) -> None:
    assert read(text, Contract.from_schema(None, format=format)).span is None  # type: ignore[arg-type]
