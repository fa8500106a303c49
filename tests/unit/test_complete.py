"""What `complete` makes of an answer, over a scripted provider."""

from __future__ import annotations

import pytest

from trustgraph_prompt.errors import StructuredOutputInvalid
from trustgraph_prompt.llm import Message, Response, ScriptedAnswer, ScriptedProvider

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
ASKED = [{"role": "user", "content": "Which number?"}]


async def test_without_a_schema_nothing_is_parsed() -> None:
    response: Response[None] = await ScriptedProvider([ScriptedAnswer('{"n": 1}')]).complete(ASKED)

    assert response.message == Message("assistant", '{"n": 1}')
    assert response.parsed is None


async def test_the_value_of_the_whole_content_is_parsed() -> None:
    response = await ScriptedProvider([ScriptedAnswer(' {"n":1}\n')]).complete(ASKED, response_schema=SCHEMA)

    assert response.parsed == {"n": 1}
    assert response.message.content == ' {"n":1}\n'


async def test_a_value_within_prose_is_not_the_content() -> None:
    provider = ScriptedProvider([ScriptedAnswer('Here: {"n": 1}')])

    with pytest.raises(StructuredOutputInvalid, match="other text around") as caught:
        await provider.complete(ASKED, response_schema=SCHEMA)

    assert caught.value.output_content == 'Here: {"n": 1}'
